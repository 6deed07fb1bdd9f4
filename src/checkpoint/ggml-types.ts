import type { BlockFormat } from './ggml-block.ts';
import { Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 } from './ggml-blocks-of-32.ts';
import { BF16, F16, F32 } from './ggml-floats.ts';
import { Q2_K, Q3_K, Q4_K, Q5_K, Q6_K } from './ggml-k-quants.ts';
import { IQ4_NL, IQ4_XS, MXFP4 } from './ggml-tables.ts';

/** The number formats that are read, by the names that GGML gives them. */
export const GGML_FORMATS = {
  ...{ F32, F16, BF16 },
  ...{ Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 },
  ...{ Q2_K, Q3_K, Q4_K, Q5_K, Q6_K },
  ...{ IQ4_NL, IQ4_XS, MXFP4 },
} as const satisfies Readonly<Record<string, BlockFormat>>;

export type GgmlType = keyof typeof GGML_FORMATS;

/** GGUF's numbers of the types: enum ggml_type in https://github.com/ggml-org/ggml/blob/master/docs/gguf.md */
const TYPE_NUMBERS: Readonly<Record<GgmlType, number>> = {
  F32: 0,
  F16: 1,
  Q4_0: 2,
  Q4_1: 3,
  Q5_0: 6,
  Q5_1: 7,
  Q8_0: 8,
  Q2_K: 10,
  Q3_K: 11,
  Q4_K: 12,
  Q5_K: 13,
  Q6_K: 14,
  IQ4_NL: 20,
  IQ4_XS: 23,
  BF16: 30,
  MXFP4: 39,
};

const TYPES: ReadonlyMap<number, GgmlType> = new Map(
  (Object.keys(TYPE_NUMBERS) as GgmlType[]).map((type) => [TYPE_NUMBERS[type], type]),
);

/** Types that are not read, so that errors name them. */
const OTHER_TYPES: Readonly<Record<number, string>> = {
  ...{ 9: 'Q8_1', 15: 'Q8_K', 16: 'IQ2_XXS', 17: 'IQ2_XS', 18: 'IQ3_XXS', 19: 'IQ1_S', 21: 'IQ3_S', 22: 'IQ2_S' },
  ...{ 24: 'I8', 25: 'I16', 26: 'I32', 27: 'I64', 28: 'F64', 29: 'IQ1_M', 34: 'TQ1_0', 35: 'TQ2_0' },
};

/** What GGML calls the type that GGUF numbers so, also one that is not read. */
export function ggmlTypeName(number: number): string {
  return TYPES.get(number) ?? OTHER_TYPES[number] ?? `number ${number}`;
}

/** The type that GGUF numbers so; undefined for one that is not read. */
export function ggmlType(number: number): GgmlType | undefined {
  return TYPES.get(number);
}

/** Whether `dtype` is one of the types that `dequantise` takes. */
export function isGgmlType(dtype: string): dtype is GgmlType {
  return Object.hasOwn(GGML_FORMATS, dtype);
}

/** The values of whole blocks, bit for bit those of GGML. Throws RangeError where `bytes` ends inside a block. */
export function dequantise(type: GgmlType, bytes: Uint8Array): Float32Array<ArrayBuffer> {
  const format: BlockFormat = GGML_FORMATS[type];
  const blocks = bytes.byteLength / format.bytes;
  if (!Number.isInteger(blocks)) {
    throw new RangeError(`${bytes.byteLength} bytes are no whole number of ${type} blocks of ${format.bytes}`);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const values = new Float32Array(blocks * format.values);
  for (let block = 0; block < blocks; block++) {
    format.decode(view, block * format.bytes, values, block * format.values);
  }
  return values;
}
