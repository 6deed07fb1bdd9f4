import { bytesSource } from '../../checkpoint/byte-source.ts';
import type { Checkpoint, TensorInfo } from '../../checkpoint/checkpoint.ts';
import { type ModelConfig, parseModelConfig } from '../../checkpoint/model-config.ts';
import { openSafetensors } from '../../checkpoint/safetensors.ts';
import { readTestFile } from '../../testing/read-file.ts';
import type { EmbedSequence } from '../embed-runner.ts';

/** Tiny encoders with golden values. */
export const GOLDEN_ENCODERS = ['bert', 'bert-classifier', 'xlm-roberta', 'xlm-roberta-classifier'] as const;

/** Sequences of each golden file. */
export const GOLDEN_SEQUENCES = [0, 1, 2] as const;

export interface GoldenModel {
  readonly config: ModelConfig;
  readonly checkpoint: Checkpoint;
  /** A golden tensor; undefined where the file has none of that name. */
  golden(name: string): Promise<Float32Array<ArrayBuffer> | undefined>;
  /** A golden tensor of ids, cut into rows of so many. */
  rows(name: string, columns: number): Promise<Uint32Array<ArrayBuffer>[]>;
  /** Golden sequence `index`. */
  sequence(index: number): Promise<EmbedSequence>;
}

/** A model of src/testing/golden/tiny with its golden values. */
export async function goldenModel(name: string): Promise<GoldenModel> {
  const folder = `src/testing/golden/tiny/${name}`;
  const [text, weights, values] = await Promise.all(
    ['config.json', 'model.safetensors', 'golden.safetensors'].map((file) => readTestFile(`${folder}/${file}`)),
  );
  const checkpoint = await openSafetensors(bytesSource('model.safetensors', weights!));
  const golden = await openSafetensors(bytesSource('golden.safetensors', values!));
  const bytesOf = async (tensor: string) => {
    const info = golden.tensors.get(tensor);
    return info && (await golden.read(info)).slice().buffer;
  };
  const ids = async (tensor: string) => {
    const bytes = await bytesOf(tensor);
    return bytes && Uint32Array.from(new Int32Array(bytes));
  };
  return {
    config: parseModelConfig(new TextDecoder().decode(text), 'config.json'),
    checkpoint,
    golden: async (tensor) => {
      const bytes = await bytesOf(tensor);
      return bytes && new Float32Array(bytes);
    },
    rows: async (tensor, columns) => {
      const all = (await ids(tensor))!;
      return Array.from({ length: all.length / columns }, (_, i) => all.slice(i * columns, (i + 1) * columns));
    },
    sequence: async (index) => ({
      ids: (await ids(`input_ids_${index}`))!,
      typeIds: await ids(`token_type_ids_${index}`),
    }),
  };
}

/** The largest |a − b|; infinite where one is NaN or their lengths differ. */
export function largestDifference(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  let largest = actual.length === expected.length ? 0 : Number.POSITIVE_INFINITY;
  for (let i = 0; i < expected.length; i++) {
    const difference = Math.abs(actual[i]! - expected[i]!);
    if (!(difference <= largest)) largest = Number.isNaN(difference) ? Number.POSITIVE_INFINITY : difference;
  }
  return largest;
}

/** A checkpoint with f32 tensors beside its own. */
export function withTensors(
  checkpoint: Checkpoint,
  more: Readonly<Record<string, { readonly shape: readonly number[]; readonly values: Float32Array<ArrayBuffer> }>>,
): Checkpoint {
  const added = Object.entries(more).map(([name, { shape, values }]): [string, TensorInfo] => [
    name,
    { name, dtype: 'F32', shape, offset: 0, byteLength: values.byteLength },
  ]);
  return {
    name: checkpoint.name,
    tensors: new Map([...checkpoint.tensors, ...added]),
    read: async (tensor, from = 0, length = tensor.byteLength - from) => {
      const own = Object.hasOwn(more, tensor.name) ? more[tensor.name] : undefined;
      return own
        ? new Uint8Array(own.values.buffer).subarray(from, from + length)
        : checkpoint.read(tensor, from, length);
    },
  };
}
