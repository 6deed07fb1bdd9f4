import type { ModelConfig } from '../checkpoint/model-config.ts';
import type { AdaptableMatrix } from '../checkpoint/peft-adapter.ts';
import type { DecoderNames, ProductName } from './architecture.ts';
import type { DecoderConfig } from './decoder-config.ts';
import { describeDecoder } from './describe-decoder.ts';

/** A matrix that adapters may change; a stretch of a module's outputs where files have several matrices in one. */
export interface SiteModule extends AdaptableMatrix {
  /** Its own outputs begin here, of the module's. */
  readonly first: number;
  readonly count: number;
}

/** Matrices of one input, in the order of their outputs. */
export interface AdapterSite {
  readonly label: string;
  readonly columns: number;
  readonly modules: readonly SiteModule[];
  /** Of query, key and value: outputs i and i + half of a head become a pair, where their matrix is paired. */
  readonly half?: number;
}

/** Where adapters come in, in one layer. Experts take none. */
export interface LayerSites {
  /** Query, key and value. */
  readonly qkv: AdapterSite;
  readonly attentionOutput: AdapterSite;
  /** Gate and up; of a plain network up alone. */
  readonly up: AdapterSite | undefined;
  readonly down: AdapterSite | undefined;
}

export const SITE_KINDS = ['qkv', 'attentionOutput', 'up', 'down'] as const;

/** The sites of a decoder's layers. Throws CheckpointError where its config isn't served. */
export function adapterSites(modelConfig: ModelConfig): readonly LayerSites[] {
  const { config, names } = describeDecoder(modelConfig);
  return allLayerSites(config, names);
}

/** The sites of all layers. */
export function allLayerSites(config: DecoderConfig, names: DecoderNames): readonly LayerSites[] {
  return config.layers.map((_, index) => layerSites(config, names, index));
}

function layerSites(config: DecoderConfig, names: DecoderNames, index: number): LayerSites {
  const { hiddenSize } = config;
  const { attention, feedForward } = config.layers[index]!;
  const layer = names.layer(index);
  const { heads, kvHeads, headSize } = attention;
  const site = (kind: string, inputs: number, modules: readonly (readonly [ProductName, number])[]): AdapterSite => ({
    label: `${kind} ${index}`,
    columns: inputs,
    modules: modules.map(([{ weight }, count]) => ({
      module: weight.tensor.replace(/\.weight$/, ''),
      inputs,
      outputs: weight.stretch?.of ?? count,
      first: weight.stretch?.first ?? 0,
      count,
    })),
  });
  const network = layer.feedForward;
  const size = feedForward.size;
  return {
    qkv: {
      ...site('q | k | v', hiddenSize, [
        [layer.query, heads * headSize],
        [layer.key, kvHeads * headSize],
        [layer.value, kvHeads * headSize],
      ]),
      half: headSize / 2,
    },
    attentionOutput: site('o', heads * headSize, [[layer.attentionOutput, hiddenSize]]),
    up:
      network.kind === 'gated'
        ? site('gate | up', hiddenSize, [
            [network.gate, size],
            [network.up, size],
          ])
        : network.kind === 'plain'
          ? site('up', hiddenSize, [[network.up, size]])
          : undefined,
    down: network.kind === 'experts' ? undefined : site('down', size, [[network.down, hiddenSize]]),
  };
}
