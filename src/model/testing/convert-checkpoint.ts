import type { Checkpoint, TensorInfo } from '../../checkpoint/checkpoint.ts';
import { encodeWeights } from '../../gpu/testing/matrices.ts';
import { WEIGHT_FORMATS } from '../../gpu/weight-format.ts';

/** The F32 tensors of `checkpoint` that `which` picks, as halves or bfloat16; the others as they are. */
export async function convertCheckpoint(
  checkpoint: Checkpoint,
  format: 'f16' | 'bf16',
  which: (name: string) => boolean = () => true,
): Promise<Checkpoint> {
  const tensors = new Map<string, TensorInfo>();
  const contents = new Map<string, Uint8Array>();
  for (const [name, tensor] of checkpoint.tensors) {
    const bytes = await checkpoint.read(tensor);
    const floats = WEIGHT_FORMATS.f32.decode(bytes, bytes.byteLength / 4);
    const converted = which(name) ? encodeWeights(floats, format) : bytes;
    const dtype = which(name) ? format.toUpperCase() : tensor.dtype;
    contents.set(name, converted);
    tensors.set(name, { ...tensor, dtype, byteLength: converted.byteLength });
  }
  return {
    name: `${checkpoint.name} as ${format}`,
    tensors,
    async read(tensor, from = 0, length = tensor.byteLength - from) {
      return contents.get(tensor.name)!.subarray(from, from + length);
    },
  };
}
