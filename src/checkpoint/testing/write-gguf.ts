import { GGML_FORMATS, type GgmlType } from '../ggml-types.ts';

/** A metadata value with GGUF's number of its type, or one whose type follows from it. */
export type Written =
  | string
  | boolean
  | number
  | readonly string[]
  | Float32Array
  | Int32Array
  | { readonly type: number; readonly bytes: Uint8Array };

export interface WrittenTensor {
  readonly type: GgmlType | number;
  /** Innermost first, as GGUF has it. */
  readonly sizes: readonly (number | bigint)[];
  readonly bytes: Uint8Array;
  /** Instead of where the bytes are put. */
  readonly offset?: number;
}

export interface GgufParts {
  readonly version?: number;
  readonly metadata?: readonly (readonly [string, Written])[];
  readonly tensors?: readonly (readonly [string, WrittenTensor])[];
  readonly alignment?: number;
  /** Instead of how many there are. */
  readonly tensorCount?: bigint;
  readonly pairCount?: bigint;
}

const TYPE_NUMBERS: Partial<Record<GgmlType, number>> = { F32: 0, F16: 1, Q4_0: 2, Q8_0: 8, MXFP4: 39 };

/** Writes a small GGUF file, right or wrong. Numbers are u32 where whole, else f32. */
export function writeGguf({
  version = 3,
  metadata = [],
  tensors = [],
  alignment = 32,
  tensorCount = BigInt(tensors.length),
  pairCount = BigInt(metadata.length),
}: GgufParts): Uint8Array {
  const out: number[] = [];
  const push = (bytes: Uint8Array | number[]) => {
    for (const byte of bytes) out.push(byte);
  };
  const u32 = (value: number) => push(new Uint8Array(Uint32Array.of(value).buffer));
  const u64 = (value: bigint) => push(new Uint8Array(BigUint64Array.of(value).buffer));
  const text = (value: string) => {
    const bytes = new TextEncoder().encode(value);
    u64(BigInt(bytes.length));
    push(bytes);
  };
  const pad = () => {
    while (out.length % alignment !== 0) out.push(0);
  };
  const value = (written: Written) => {
    if (typeof written === 'string') {
      u32(8);
      text(written);
    } else if (typeof written === 'boolean') {
      u32(7);
      push([written ? 1 : 0]);
    } else if (typeof written === 'number') {
      u32(Number.isInteger(written) ? 4 : 6);
      push(new Uint8Array((Number.isInteger(written) ? Uint32Array.of(written) : Float32Array.of(written)).buffer));
    } else if (written instanceof Float32Array || written instanceof Int32Array) {
      u32(9);
      u32(written instanceof Float32Array ? 6 : 5);
      u64(BigInt(written.length));
      push(new Uint8Array(written.buffer, written.byteOffset, written.byteLength));
    } else if ('bytes' in written) {
      u32(written.type);
      push(written.bytes);
    } else {
      u32(9);
      u32(8);
      u64(BigInt(written.length));
      written.forEach(text);
    }
  };
  push(new TextEncoder().encode('GGUF'));
  u32(version);
  u64(tensorCount);
  u64(pairCount);
  for (const [key, written] of metadata) {
    text(key);
    value(written);
  }
  let relative = 0;
  for (const [name, { type, sizes, bytes, offset }] of tensors) {
    text(name);
    u32(sizes.length);
    for (const size of sizes) u64(BigInt(size));
    u32(typeof type === 'number' ? type : TYPE_NUMBERS[type]!);
    u64(BigInt(offset ?? relative));
    relative += Math.ceil(bytes.length / alignment) * alignment;
  }
  pad();
  for (const [, { bytes }] of tensors) {
    push(bytes);
    pad();
  }
  return Uint8Array.from(out);
}

/** A tensor of zeros. */
export function zeros(type: GgmlType, ...sizes: readonly number[]): WrittenTensor {
  const { values, bytes } = GGML_FORMATS[type];
  const count = sizes.reduce((product, size) => product * size, 1);
  return { type, sizes, bytes: new Uint8Array((count / values) * bytes) };
}

/** Everything that a Llama of one layer, 8 columns and two heads must say; entries of `change` replace or add to it. */
export function tinyLlama(
  change: Readonly<Record<string, Written | undefined>> = {},
  tensors: Readonly<Record<string, WrittenTensor | undefined>> = {},
): Uint8Array {
  const tokens = ['<unk>', '<s>', '</s>', '▁', 'a', 'b', 'ab', '▁ab'];
  const metadata: Record<string, Written | undefined> = {
    'general.architecture': 'llama',
    'llama.context_length': 16,
    'llama.embedding_length': 8,
    'llama.block_count': 1,
    'llama.feed_forward_length': 12,
    'llama.attention.head_count': 2,
    'llama.attention.layer_norm_rms_epsilon': 1e-5,
    'tokenizer.ggml.model': 'llama',
    'tokenizer.ggml.tokens': tokens,
    'tokenizer.ggml.scores': Float32Array.of(0, 0, 0, -3, -4, -5, -1, -2),
    'tokenizer.ggml.token_type': Int32Array.of(2, 3, 3, 1, 1, 1, 1, 1),
    'tokenizer.ggml.bos_token_id': 1,
    'tokenizer.ggml.eos_token_id': 2,
    ...change,
  };
  const all: Record<string, WrittenTensor | undefined> = {
    'token_embd.weight': zeros('F32', 8, tokens.length),
    'blk.0.attn_norm.weight': zeros('F32', 8),
    'blk.0.attn_q.weight': zeros('F32', 8, 8),
    'blk.0.attn_k.weight': zeros('F32', 8, 8),
    'blk.0.attn_v.weight': zeros('F32', 8, 8),
    'blk.0.attn_output.weight': zeros('F32', 8, 8),
    'blk.0.ffn_norm.weight': zeros('F32', 8),
    'blk.0.ffn_gate.weight': zeros('F32', 8, 12),
    'blk.0.ffn_up.weight': zeros('F32', 8, 12),
    'blk.0.ffn_down.weight': zeros('F32', 12, 8),
    'output_norm.weight': zeros('F32', 8),
    ...tensors,
  };
  const present = <T>(entries: Readonly<Record<string, T | undefined>>) =>
    Object.entries(entries).filter((entry): entry is [string, T] => entry[1] !== undefined);
  return writeGguf({ metadata: present(metadata), tensors: present(all) });
}
