import { type Checkpoint, CheckpointError, type TensorInfo } from '../../checkpoint/checkpoint.ts';
import type { TensorCount } from '../../checkpoint/model-about.ts';
import { openGguf } from '../../checkpoint/open-gguf.ts';
import { openSafetensors } from '../../checkpoint/safetensors.ts';
import { withDiskSource } from './disk-source.ts';

export type TensorShape = Pick<TensorInfo, 'dtype' | 'shape'>;

/**
 * What a model's weights are, by name, by the headers of its files, without those that stay unread; those of a module in a folder of its
 * own have that before their names. Undefined where one can't be read: nodes that load it say what is wrong with it.
 */
export async function tensorShapes(
  paths: Readonly<Record<string, string>>,
  staysUnread: (name: string) => boolean,
): Promise<ReadonlyMap<string, TensorShape> | undefined> {
  const shapes = new Map<string, TensorShape>();
  const add = ({ tensors }: Checkpoint, folder = '') => {
    for (const { name, dtype, shape } of tensors.values()) {
      if (!staysUnread(name)) shapes.set(folder + name, { dtype, shape });
    }
  };
  try {
    for (const [name, path] of Object.entries(paths)) {
      if (name.endsWith('.gguf')) add((await withDiskSource(path, openGguf)).checkpoint);
      else if (name.endsWith('.safetensors')) {
        add(await withDiskSource(path, openSafetensors), name.slice(0, name.lastIndexOf('/') + 1));
      }
    }
  } catch (error) {
    if (error instanceof CheckpointError || error instanceof RangeError) return undefined;
    throw error;
  }
  return shapes;
}

/** How many of them are alike. */
export function countTensors(shapes: ReadonlyMap<string, TensorShape>): readonly TensorCount[] {
  const counts = new Map<string, { dtype: string; shape: readonly number[]; count: number }>();
  for (const { dtype, shape } of shapes.values()) {
    const key = `${dtype} ${shape.join()}`;
    const known = counts.get(key);
    if (known) known.count++;
    else counts.set(key, { dtype, shape, count: 1 });
  }
  return [...counts.values()];
}
