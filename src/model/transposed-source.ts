import { WEIGHT_FORMATS, type WeightFormat } from '../gpu/weight-format.ts';
import type { MatrixSource } from '../gpu/weight-matrix.ts';

export interface TransposedTensor {
  readonly label: string;
  readonly rows: number;
  readonly columns: number;
  /** The matrix's rows are columns [first, first + rows) of the tensor's `of`. */
  readonly first: number;
  readonly of: number;
  readonly format: WeightFormat;
  /** Bytes of the tensor, [columns, of] numbers. */
  read(from: number, length: number): Promise<Uint8Array>;
}

/** Bytes of a tensor that are read at a time. */
const READ_BYTES = 4 << 20;

/**
 * A matrix [rows, columns] that a file holds as [columns, of] (GPT-2's Conv1D). It is read and turned when its first
 * bytes are asked for, and held until its last ones were.
 */
export function transposedSource(tensor: TransposedTensor): MatrixSource {
  const { label, rows, columns, format } = tensor;
  const total = rows * columns * WEIGHT_FORMATS[format].bytes;
  let turned: Promise<Uint8Array> | undefined;
  return {
    label,
    rows,
    format,
    async read(from, length) {
      turned ??= turn(tensor);
      const bytes = (await turned).subarray(from, from + length);
      if (from + length >= total) turned = undefined;
      return bytes;
    },
  };
}

async function turn({ rows, columns, first, of, format, read }: TransposedTensor): Promise<Uint8Array> {
  const size = WEIGHT_FORMATS[format].bytes;
  const turned = new Uint8Array(rows * columns * size);
  const rowBytes = of * size;
  const atOnce = Math.max(1, Math.floor(READ_BYTES / rowBytes));
  for (let column = 0; column < columns; column += atOnce) {
    const count = Math.min(atOnce, columns - column);
    const some = await read(column * rowBytes, count * rowBytes);
    for (let i = 0; i < count; i++) {
      for (let row = 0; row < rows; row++) {
        const from = i * rowBytes + (first + row) * size;
        for (let b = 0; b < size; b++) turned[(row * columns + column + i) * size + b] = some[from + b]!;
      }
    }
  }
  return turned;
}
