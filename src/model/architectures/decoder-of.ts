import type { DecoderConfig } from '../decoder-config.ts';
import type { ConfigKeys } from './config-keys.ts';

/** A decoder of what most families leave as it is: no scales, no caps, no learned positions. */
export function decoderOf(
  keys: ConfigKeys,
  own: Pick<DecoderConfig, 'architecture' | 'norm' | 'ropes' | 'layers' | 'tiedHead'> & Partial<DecoderConfig>,
): DecoderConfig {
  // Off, it would change the model: embedders made of decoders whose positions see those after them say so.
  for (const key of ['is_causal', 'causal']) keys.only(key, true);
  const { vocabSize, contextLength, hiddenSize } = keys.config;
  return { vocabSize, contextLength, hiddenSize, embeddingScale: 1, logitsScale: 1, ...own };
}

/** The same layer over and over, but for what `change` gives. */
export function layersOf<T>(count: number, layer: (index: number) => T): readonly T[] {
  return Array.from({ length: count }, (_, index) => layer(index));
}
