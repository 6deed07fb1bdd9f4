import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import { type ModelConfig, parseModelConfig } from '../../src/checkpoint/model-config.ts';
import type { TokenBytes } from '../../src/checkpoint/token-bytes.ts';
import { readModel } from '../../src/engine/read-model.ts';
import type { LoadOptions } from '../../src/model/load-options.ts';
import { fetchManifest, relayFiles } from '../../src/node/model-files.ts';
import { anyTokens } from './bench-model.ts';
import type { ModelRequest, RandomQuant } from './model-request.ts';
import { type RandomDtype, randomCheckpoint } from './random-checkpoint.ts';

const FETCH_MS = 120_000;
/** What a file of these formats has. */
const DTYPES: Readonly<Record<RandomQuant, RandomDtype>> = { q4: 'Q4_1', q8: 'Q8_0', f16: 'F16', f32: 'F32' };

export interface OpenedModel {
  readonly name: string;
  /** How its matrices are kept, in words. */
  readonly weights: string;
  readonly config: ModelConfig;
  readonly checkpoint: Checkpoint;
  readonly tokens: TokenBytes;
  readonly quantisation: LoadOptions['quantisation'];
}

/** Opens what a request names. Rejects with CheckpointError, or where the server doesn't answer. */
export async function openBenchModel({ name, weights }: ModelRequest): Promise<OpenedModel> {
  if ('url' in weights) {
    const signal = AbortSignal.timeout(FETCH_MS);
    const { manifest } = await fetchManifest(weights.url, signal);
    const files = relayFiles(weights.url, manifest, signal, { onProgress: () => {}, onTrouble: () => {} });
    const { checkpoint, config, tokens } = await readModel(files);
    const quantisation = manifest.quantisation === 'none' ? undefined : manifest.quantisation;
    const dtypes = [...new Set([...checkpoint.tensors.values()].filter(isMatrix).map(({ dtype }) => dtype))];
    const stored = dtypes.join(', ');
    const said = quantisation === undefined ? stored : `${quantisation} of ${stored}`;
    return { name: manifest.name, weights: said, config, checkpoint, tokens, quantisation };
  }
  const config = parseModelConfig(weights.configText, `${name}.json`);
  const checkpoint = randomCheckpoint(name, config, DTYPES[weights.quant]);
  const said = `random ${DTYPES[weights.quant]}`;
  return { name, weights: said, config, checkpoint, tokens: anyTokens(config.vocabSize), quantisation: undefined };
}

function isMatrix({ shape }: { readonly shape: readonly number[] }): boolean {
  return shape.length > 1;
}
