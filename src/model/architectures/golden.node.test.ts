import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { bytesSource } from '../../checkpoint/byte-source.ts';
import { parseModelConfig } from '../../checkpoint/model-config.ts';
import { openSafetensors } from '../../checkpoint/safetensors.ts';
import { referenceDecoder } from '../../testing/decoder-reference.ts';
import { readReferenceWeights } from '../../testing/decoder-reference-weights.ts';
import { architectureOf } from '../architecture-of.ts';
import { decoderCheckpoint, tensorsOf } from '../decoder-checkpoint.ts';

const DECODERS = [
  ...['llama', 'llama3-rope', 'mistral', 'mixtral', 'qwen2', 'qwen2-yarn', 'qwen3', 'qwen3-moe'],
  ...['gemma2', 'gemma3', 'gemma3-newconfig', 'phi3', 'gpt2', 'smollm3', 'olmo2', 'granite'],
];
const LENGTH = 48;

const file = async (model: string, name: string) =>
  new Uint8Array(await readFile(new URL(`../../testing/golden/tiny/${model}/${name}`, import.meta.url)));

async function open(model: string, name: string) {
  return openSafetensors(bytesSource(name, await file(model, name)));
}

test.each(DECODERS)('%s: the config and names give the logits of the reference implementation', async (model) => {
  const config = parseModelConfig(new TextDecoder().decode(await file(model, 'config.json')), 'config.json');
  const architecture = architectureOf(config);
  const decoder = architecture.readConfig(config);
  const names = architecture.tensorNames(decoder);
  const stored = await open(model, 'model.safetensors');
  const checkpoint = decoderCheckpoint(stored, architecture, decoder);
  expect([...tensorsOf(names, decoder)].sort()).toEqual([...stored.tensors.keys()].sort());

  const golden = await open(model, 'golden.safetensors');
  const read = async (name: string) => (await golden.read(golden.tensors.get(name)!)).slice().buffer;
  const ids = new Int32Array(await read('input_ids'));
  const logits = new Float32Array(await read('logits'));
  const hidden = new Float32Array(await read('last_hidden'));
  const weights = await readReferenceWeights(checkpoint, names, decoder);
  // The second sequence: the first one is others' too.
  const ours = referenceDecoder(decoder, weights, [...ids.subarray(LENGTH, 2 * LENGTH)]);
  const worst = (rows: readonly Float64Array[], all: Float32Array) => {
    const own = all.subarray(all.length / 2);
    expect(own.length).toBe(rows.length * rows[0]!.length);
    return Math.max(
      ...rows.map((row, r) => Math.max(...row.map((value, i) => Math.abs(value - own[r * row.length + i]!)))),
    );
  };
  expect(worst(ours.lastHidden, hidden)).toBeLessThan(2e-4);
  expect(worst(ours.logits, logits)).toBeLessThan(2e-4);
});
