import { CheckpointError, type TensorInfo } from './checkpoint.ts';

/** Throws CheckpointError where two tensors of a file share bytes. */
export function checkOverlaps(file: string, tensors: ReadonlyMap<string, TensorInfo>): void {
  const byOffset = [...tensors.values()].filter((t) => t.byteLength > 0).sort((a, b) => a.offset - b.offset);
  for (let i = 1; i < byOffset.length; i++) {
    const [before, after] = [byOffset[i - 1]!, byOffset[i]!];
    if (before.offset + before.byteLength > after.offset) {
      throw new CheckpointError(`${file}: tensors ${before.name} and ${after.name} overlap`);
    }
  }
}
