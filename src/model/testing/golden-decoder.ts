import { bytesSource } from '../../checkpoint/byte-source.ts';
import type { Checkpoint } from '../../checkpoint/checkpoint.ts';
import { type ModelConfig, parseModelConfig } from '../../checkpoint/model-config.ts';
import { openSafetensors } from '../../checkpoint/safetensors.ts';
import { readTestFile } from '../../testing/read-file.ts';

/** A tiny decoder, with what the reference computes of two sequences. */
export interface GoldenDecoder {
  readonly config: ModelConfig;
  readonly checkpoint: Checkpoint;
  /** Of both sequences. */
  readonly ids: readonly Uint32Array[];
  /** [2, positions, vocabulary] */
  readonly logits: Float32Array;
  /** Greedy ids after the first 20 ids of each sequence. */
  readonly greedy: readonly Uint32Array[];
}

/** A decoder of src/testing/golden/tiny. */
export async function goldenDecoder(name: string): Promise<GoldenDecoder> {
  const folder = `src/testing/golden/tiny/${name}`;
  const [text, weights, values] = await Promise.all(
    ['config.json', 'model.safetensors', 'golden.safetensors'].map((file) => readTestFile(`${folder}/${file}`)),
  );
  const golden = await openSafetensors(bytesSource('golden.safetensors', values!));
  const bytesOf = async (tensor: string) => (await golden.read(golden.tensors.get(tensor)!)).slice().buffer;
  const twoRows = async (tensor: string) => {
    const all = Uint32Array.from(new Int32Array(await bytesOf(tensor)));
    return [all.subarray(0, all.length / 2), all.subarray(all.length / 2)];
  };
  return {
    config: parseModelConfig(new TextDecoder().decode(text), 'config.json'),
    checkpoint: await openSafetensors(bytesSource('model.safetensors', weights!)),
    ids: await twoRows('input_ids'),
    logits: new Float32Array(await bytesOf('logits')),
    greedy: await twoRows('greedy'),
  };
}
