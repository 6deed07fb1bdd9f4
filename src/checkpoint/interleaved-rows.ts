import type { Checkpoint, TensorInfo } from './checkpoint.ts';

/**
 * Where a file in interleaved order has row `row` of Hugging Face's order. Rotary embedding turns pairs of numbers of a
 * head: Hugging Face pairs j with j + headRows/2, GGUF's llama files pair 2j with 2j + 1, and have the rows of the
 * query and key projections permuted for it, within each head.
 */
export function interleavedRow(row: number, headRows: number): number {
  const within = row % headRows;
  const half = headRows / 2;
  return row - within + 2 * (within % half) + Math.floor(within / half);
}

/**
 * `length` bytes from byte `from` of a tensor with its rows put in Hugging Face's order. Reads whole heads of
 * `headRows` rows, so holds up to two heads more than it gives.
 */
export async function readInterleavedRows(
  checkpoint: Checkpoint,
  tensor: TensorInfo,
  headRows: number,
  from: number,
  length: number,
): Promise<Uint8Array> {
  if (from < 0 || length < 0 || from + length > tensor.byteLength) {
    throw new RangeError(`${checkpoint.name}: tensor ${tensor.name} has no bytes ${from}…${from + length}`);
  }
  const result = new Uint8Array(length);
  if (length === 0) return result;
  const rowBytes = tensor.byteLength / tensor.shape[0]!;
  const headBytes = rowBytes * headRows;
  const start = Math.floor(from / headBytes) * headBytes;
  const end = Math.ceil((from + length) / headBytes) * headBytes;
  const bytes = await checkpoint.read(tensor, start, end - start);
  for (let row = Math.floor(from / rowBytes); row * rowBytes < from + length; row++) {
    // The part of the row that was asked for.
    const first = Math.max(from, row * rowBytes);
    const last = Math.min(from + length, (row + 1) * rowBytes);
    const source = interleavedRow(row, headRows) * rowBytes - start + (first - row * rowBytes);
    result.set(bytes.subarray(source, source + last - first), first - from);
  }
  return result;
}
