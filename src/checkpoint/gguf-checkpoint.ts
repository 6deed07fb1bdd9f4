import { type Checkpoint, CheckpointError, type TensorInfo } from './checkpoint.ts';
import type { Gguf } from './gguf.ts';
import type { GgufDescription, GgufTensor } from './gguf-architecture.ts';
import { readInterleavedRows } from './interleaved-rows.ts';

/** Some early files hold the rotary frequencies of each layer, which follow from the metadata. */
const IRRELEVANT = /^blk\.\d+\.attn_rot_embd(\.weight)?$/;

interface Place {
  readonly tensor: TensorInfo;
  /** Where it begins in its tensor, in bytes. */
  readonly from: number;
  readonly entry: GgufTensor;
}

/**
 * The tensors of a GGUF file under Hugging Face's names, each row where Hugging Face's checkpoints have it. Throws
 * CheckpointError naming file, tensor and reason where one is missing or has another shape than the config asks for,
 * and where one is there that nothing asks for.
 */
export function ggufCheckpoint(gguf: Gguf, { tensors: wanted, spent }: GgufDescription): Checkpoint {
  const fail = (name: string, reason: string): never => {
    throw new CheckpointError(`${gguf.name}: tensor ${JSON.stringify(name)} ${reason}`);
  };
  const tensors = new Map<string, TensorInfo>();
  const places = new Map<string, Place>();
  const known = new Set(spent);
  for (const entry of wanted) {
    const { name, shape, names, plusOne, transposed } = entry;
    const tensor = gguf.tensors.get(name) ?? fail(name, 'is missing');
    if (tensor.shape.join() !== shape.join()) {
      fail(name, `has shape [${tensor.shape.join(', ')}], the metadata asks for [${shape.join(', ')}]`);
    }
    if (plusOne && tensor.dtype !== 'F32') fail(name, `has type ${tensor.dtype}; F32 is read`);
    known.add(name);
    const byteLength = tensor.byteLength / names.length;
    for (const [slice, own] of names.entries()) {
      const from = slice * byteLength;
      const info = { name: own, dtype: tensor.dtype, byteLength, offset: tensor.offset + from };
      const ownShape = names.length === 1 ? tensor.shape : tensor.shape.slice(1);
      tensors.set(own, { ...info, shape: ownShape, ...(transposed ? { transposed } : {}) });
      places.set(own, { tensor, from, entry });
    }
  }
  for (const name of gguf.tensors.keys()) {
    if (!known.has(name) && !IRRELEVANT.test(name)) fail(name, 'is not known');
  }
  return {
    name: gguf.name,
    tensors,
    async read({ name, byteLength }, from = 0, length = byteLength - from) {
      const { tensor, entry, from: start } = places.get(name) ?? fail(name, 'is missing');
      if (from < 0 || length < 0 || from + length > byteLength) {
        throw new RangeError(`${gguf.name}: tensor ${name} has no bytes ${from}…${from + length}`);
      }
      if (entry.interleavedHeads !== undefined) {
        return readInterleavedRows(gguf, tensor, tensor.shape[0]! / entry.interleavedHeads, from, length);
      }
      if (!entry.plusOne) return gguf.read(tensor, start + from, length);
      // A vector of some thousand numbers: it is read whole, so that no number is cut.
      const values = new Float32Array((await gguf.read(tensor)).slice().buffer);
      return new Uint8Array(values.map((value) => value - 1).buffer).subarray(from, from + length);
    },
  };
}
