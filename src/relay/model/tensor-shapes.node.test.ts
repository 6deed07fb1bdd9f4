import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { writeSafetensors } from '../../checkpoint/testing/write-safetensors.ts';
import { countTensors, tensorShapes } from './tensor-shapes.ts';

test('modules in folders of their own may have tensors of one name: each counts', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'shoal-shapes-'));
  try {
    const file = async (name: string, tensor: string, shape: readonly [number, number]) => {
      const bytes = shape[0] * shape[1] * 4;
      const header = { [tensor]: { dtype: 'F32', shape, data_offsets: [0, bytes] } };
      const path = join(folder, name.replace('/', '-'));
      await writeFile(path, writeSafetensors(header, new Uint8Array(bytes)));
      return [name, path] as const;
    };
    const paths = Object.fromEntries([
      await file('model.safetensors', 'lm_head.weight', [9, 4]),
      await file('2_Dense/model.safetensors', 'linear.weight', [6, 4]),
      await file('3_Dense/model.safetensors', 'linear.weight', [5, 6]),
    ]);
    const shapes = (await tensorShapes(paths, (name) => name === 'lm_head.weight'))!;
    expect([...shapes.keys()]).toEqual(['2_Dense/linear.weight', '3_Dense/linear.weight']);
    expect(countTensors(shapes)).toEqual([
      { dtype: 'F32', shape: [6, 4], count: 1 },
      { dtype: 'F32', shape: [5, 6], count: 1 },
    ]);
  } finally {
    await rm(folder, { recursive: true });
  }
});
