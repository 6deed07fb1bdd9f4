import { bytesSource } from '../../checkpoint/byte-source.ts';
import type { Checkpoint } from '../../checkpoint/checkpoint.ts';
import { type ModelConfig, parseModelConfig } from '../../checkpoint/model-config.ts';
import { openSafetensors } from '../../checkpoint/safetensors.ts';
import { readTestFile } from '../../testing/read-file.ts';
import type { AdapterFiles } from '../read-adapter.ts';
import type { Runner, StepBatch } from '../runner.ts';
import { blocksFor, logitsRow } from './generate.ts';
import { largestDifference as largestOfRow } from './golden-encoders.ts';

const FOLDER = 'src/testing/golden';

export const GOLDEN_ADAPTERS = ['llama-r4-all', 'llama-r8-qv-rslora'] as const;

/** A PEFT adapter of tiny/llama. */
export async function goldenAdapter(name: string): Promise<AdapterFiles> {
  const file = (of: string) => readTestFile(`${FOLDER}/lora/${name}/${of}`);
  return {
    config: new TextDecoder().decode(await file('adapter_config.json')),
    weights: bytesSource('adapter_model.safetensors', await file('adapter_model.safetensors')),
  };
}

export async function tinyLlama(): Promise<{ readonly checkpoint: Checkpoint; readonly config: ModelConfig }> {
  const file = (of: string) => readTestFile(`${FOLDER}/tiny/llama/${of}`);
  return {
    checkpoint: await openSafetensors(bytesSource('model.safetensors', await file('model.safetensors'))),
    config: parseModelConfig(new TextDecoder().decode(await file('config.json')), 'config.json'),
  };
}

interface Golden {
  /** [2, 48] */
  readonly inputs: readonly number[][];
  /** [2, 48, vocabulary] */
  readonly logits: readonly Float32Array[][];
  /** [2, 24], from the first 20 ids of each row. */
  readonly greedy: readonly number[][];
}

/** What the reference makes of tiny/llama's input: with the adapter of this name, or none. */
export async function goldenValues(name?: string): Promise<Golden> {
  const open = async (of: string) =>
    openSafetensors(bytesSource('golden.safetensors', await readTestFile(`${FOLDER}/${of}/golden.safetensors`)));
  const base = await open('tiny/llama');
  const own = name === undefined ? base : await open(`lora/${name}`);
  const words = async (file: Checkpoint, tensor: string) => {
    const info = file.tensors.get(tensor)!;
    return { shape: info.shape, bytes: (await file.read(info)).slice().buffer };
  };
  const rowsOf = (values: readonly number[], columns: number) =>
    Array.from({ length: values.length / columns }, (_, row) => values.slice(row * columns, (row + 1) * columns));
  const ids = async (file: Checkpoint, tensor: string) => {
    const { shape, bytes } = await words(file, tensor);
    return rowsOf([...new Int32Array(bytes)], shape[1]!);
  };
  const { shape, bytes } = await words(own, 'logits');
  const [sequences, positions, vocabulary] = shape as [number, number, number];
  const all = new Float32Array(bytes);
  return {
    inputs: await ids(base, 'input_ids'),
    greedy: await ids(own, 'greedy'),
    logits: Array.from({ length: sequences }, (_, sequence) =>
      Array.from({ length: positions }, (_, position) => {
        const at = (sequence * positions + position) * vocabulary;
        return all.subarray(at, at + vocabulary);
      }),
    ),
  };
}

/** A runner that tells logits of all vocabulary. */
interface LogitsRunner extends Runner {
  logits(batch: StepBatch): Promise<Float32Array[]>;
}

/** All positions' logits of `ids`, with the adapter in `slot`. */
export async function logitsOf(
  runner: LogitsRunner,
  ids: readonly number[],
  slot: number | undefined,
): Promise<Float32Array<ArrayBuffer>[]> {
  const blockTable = blocksFor(ids.length);
  const moreTables = runner.limits.kvGroups.slice(1).map(() => blockTable);
  const rows = await runner.logits({
    sequences: [
      {
        ...{ slot: 0, tokens: ids, startPosition: 0, blockTable, moreTables },
        ...(slot === undefined ? {} : { adapter: slot }),
      },
    ],
    logits: ids.map((_, row) => logitsRow(row, 0)),
  });
  return rows.map((row) => row.slice());
}

/** The largest difference of any number; infinite where a NaN is among them, or there are not as many. */
export function largestDifference(actual: readonly Float32Array[], expected: readonly Float32Array[]): number {
  if (actual.length !== expected.length) return Number.POSITIVE_INFINITY;
  return Math.max(0, ...actual.map((row, i) => largestOfRow(row, expected[i]!)));
}
