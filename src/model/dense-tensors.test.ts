import { expect, test } from 'vitest';
import type { Checkpoint, TensorInfo } from '../checkpoint/checkpoint.ts';
import { denseTensors } from './encoder-tensors.ts';

/** A Dense module of 3 numbers made 2, whose file has tensors of such shapes. */
function dense(bias: boolean, shapes: Readonly<Record<string, readonly number[]>>) {
  const tensors = Object.entries(shapes).map(([name, shape]) => [name, { name, dtype: 'F32', shape } as TensorInfo]);
  const checkpoint = { name: '2_Dense/model.safetensors', tensors: new Map(tensors as [string, TensorInfo][]) };
  const module = { file: checkpoint.name, inputs: 3, outputs: 2, bias, activation: 'tanh' } as const;
  return denseTensors({ checkpoint: checkpoint as unknown as Checkpoint, module });
}

const weight = { 'linear.weight': [2, 3] };

test('a Dense module has a bias where its config says so, and zeros else', async () => {
  dense(true, { ...weight, 'linear.bias': [2] });
  expect(await dense(false, weight).bias()).toEqual(new Float32Array(2));
  expect(() => dense(true, weight)).toThrow(/linear\.bias/);
});

test('what its config has no use for is refused by name, as are other shapes', () => {
  expect(() => dense(false, { ...weight, 'linear.bias': [2] })).toThrow(/no tensors linear\.bias/);
  expect(() => dense(true, { ...weight, 'linear.bias': [2], 'linear.scale': [2] })).toThrow(/linear\.scale/);
  expect(() => dense(false, { 'linear.weight': [3, 2] })).toThrow(/linear\.weight.*shape/);
});
