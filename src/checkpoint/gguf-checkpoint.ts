import { type Checkpoint, CheckpointError, type TensorInfo } from './checkpoint.ts';
import type { Gguf } from './gguf.ts';
import type { GgufArchitecture } from './gguf-architecture.ts';
import { readInterleavedRows } from './interleaved-rows.ts';

/**
 * The tensors of a GGUF file under Hugging Face's names, each row where Hugging Face's checkpoints have it. Tensors
 * without such a name are left out: the config says what they said. Throws CheckpointError naming file, tensor and
 * reason where one is missing or has another shape than the config asks for.
 */
export function ggufCheckpoint(
  gguf: Gguf,
  architecture: GgufArchitecture,
  config: Readonly<Record<string, unknown>>,
): Checkpoint {
  const fail = (name: string, reason: string): never => {
    throw new CheckpointError(`${gguf.name}: tensor ${JSON.stringify(name)} ${reason}`);
  };
  for (const [name, shape] of architecture.required(config)) {
    const tensor = gguf.tensors.get(name) ?? fail(name, 'is missing');
    if (tensor.shape.join() !== shape.join()) {
      fail(name, `has shape [${tensor.shape.join(', ')}], the metadata asks for [${shape.join(', ')}]`);
    }
  }
  const tensors = new Map<string, TensorInfo>();
  const originals = new Map<string, TensorInfo>();
  for (const [ggufName, tensor] of gguf.tensors) {
    const name = architecture.tensorName(ggufName);
    if (name === undefined) continue;
    tensors.set(name, { ...tensor, name });
    originals.set(name, tensor);
  }
  return {
    name: gguf.name,
    tensors,
    async read({ name }, from = 0, length) {
      const tensor = originals.get(name) ?? fail(name, 'is missing');
      const heads = architecture.interleavedHeads(tensor.name, config);
      const end = length ?? tensor.byteLength - from;
      return heads === undefined
        ? gguf.read(tensor, from, end)
        : readInterleavedRows(gguf, tensor, tensor.shape[0]! / heads, from, end);
    },
  };
}
