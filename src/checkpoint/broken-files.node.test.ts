import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ByteSource, bytesSource } from './byte-source.ts';
import { type Checkpoint, CheckpointError, type TensorInfo } from './checkpoint.ts';
import { dequantise, isGgmlType } from './ggml-types.ts';
import { interleavedRow } from './interleaved-rows.ts';
import { openGguf } from './open-gguf.ts';
import { openSafetensors } from './safetensors.ts';
import { type Mutation, mutate, mutations } from './testing/mutate.ts';
import { readTokenBytes } from './token-bytes.ts';
import { readTokenizer } from './tokenizer.ts';

const LONG = Boolean(process.env.SHOAL_LONG);
const numRuns = LONG ? 30_000 : 400;
/** Of one file, in milliseconds: a hundred times what it takes. */
const MAX_MS = 3000;

const file = (path: string) => new Uint8Array(readFileSync(new URL(`../../${path}`, import.meta.url)));

/** Runs `use` on a source over `bytes`: it must end soon with success or CheckpointError, having read within bounds. */
async function attempt(bytes: Uint8Array, use: (source: ByteSource) => Promise<void>): Promise<'opened' | 'refused'> {
  const memory = bytesSource('m.file', bytes);
  let total = 0;
  const source: ByteSource = {
    ...memory,
    read(offset, length) {
      total += length;
      return memory.read(offset, length);
    },
  };
  const started = performance.now();
  let outcome: 'opened' | 'refused' = 'opened';
  try {
    await use(source);
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error;
    expect(error.message).toMatch(/^m\.file: ./);
    outcome = 'refused';
  }
  expect(performance.now() - started).toBeLessThan(MAX_MS);
  // Each tensor once, the header once, and what straddles chunks of it twice; heads of q and k are within the tensor.
  expect(total).toBeLessThanOrEqual(3 * bytes.length + (1 << 18));
  return outcome;
}

/** Reads every tensor and checks it against the bytes of the file. */
async function readAll(
  bytes: Uint8Array,
  { tensors, ...checkpoint }: Checkpoint,
  headRows?: (t: TensorInfo) => number,
) {
  for (const tensor of tensors.values()) {
    const read = await checkpoint.read(tensor);
    const stored = bytes.subarray(tensor.offset, tensor.offset + tensor.byteLength);
    expect(stored.length).toBe(tensor.byteLength);
    const rows = tensor.shape[0]!;
    const rowBytes = tensor.byteLength / rows;
    const head = headRows?.(tensor) ?? 0;
    let same = read.length === stored.length;
    for (let row = 0; same && row < rows; row++) {
      const from = (head > 0 ? interleavedRow(row, head) : row) * rowBytes;
      for (let i = 0; i < rowBytes; i++) same &&= read[row * rowBytes + i] === stored[from + i];
    }
    expect([tensor.name, same]).toEqual([tensor.name, true]);
    if (isGgmlType(tensor.dtype) && !/^B?F/.test(tensor.dtype)) {
      const values = dequantise(tensor.dtype, read);
      expect(values.length).toBe(tensor.shape.reduce((product, size) => product * size, 1));
      expect(values.every(Number.isFinite)).toBe(true);
    }
  }
}

describe('GGUF', () => {
  const gguf = file('src/testing/golden/gguf/stories260K-q4_mixed.gguf');
  /** Bytes before the first tensor. */
  const HEADER = 14_400;

  const nameAt = Buffer.from(gguf).indexOf('stories260K');
  /** Another letter of the model's name, which leaves the file as good, for an eighth of the changes of `others`. */
  const orOfName = (others: typeof mutations, stretch: number) => {
    const ofName = fc
      .record({ at: fc.nat(10), value: fc.bigInt({ min: 97n, max: 122n }) })
      .map(({ at, value }): Mutation[] => [{ kind: 'byte', place: Math.ceil(((nameAt + at) * 1e6) / stretch), value }]);
    return fc.oneof({ weight: 7, arbitrary: others }, { weight: 1, arbitrary: ofName });
  };

  const use = (bytes: Uint8Array) => async (source: ByteSource) => {
    const { checkpoint, config, tokens, tokenizerJson, tokenizerConfigJson } = await openGguf(source);
    const json = tokenizerJson();
    const same = readTokenBytes(json, 'm.file');
    expect(tokens.vocabSize).toBeLessThanOrEqual(config.vocabSize);
    for (let id = 0; id < tokens.vocabSize; id++) {
      expect([id, ...tokens.bytes(id), tokens.isSpecial(id)]).toEqual([id, ...same.bytes(id), same.isSpecial(id)]);
    }
    readTokenizer(json, tokenizerConfigJson(), 'm.file').encode('Once upon a time');
    await readAll(bytes, checkpoint, ({ name }) => (/[qk]_proj/.test(name) ? (config.raw.head_dim as number) : 0));
  };

  it('opens as it is', async () => {
    expect(await attempt(gguf, use(gguf))).toBe('opened');
  });

  it.each([
    // Nearly all that is changed there is refused.
    ['header', HEADER, orOfName(mutations, HEADER)],
    ['first bytes', 700, orOfName(mutations, 700)],
    [
      'tensor entries',
      HEADER,
      orOfName(
        mutations.map((list) => list.map((m) => ({ ...m, place: 800_000 + Math.floor(m.place / 5) }))),
        HEADER,
      ),
    ],
    ['data', gguf.length, orOfName(mutations, gguf.length)],
  ])(
    'is right or refused with CheckpointError, whatever is changed in its %s',
    async (_, stretch, changes) => {
      const outcomes = { opened: 0, refused: 0 };
      await fc.assert(
        fc.asyncProperty(changes, async (list) => {
          const bytes = mutate(gguf, stretch, list);
          outcomes[await attempt(bytes, use(bytes))]++;
        }),
        { numRuns: Math.ceil(numRuns / 4) },
      );
      expect(outcomes.opened).toBeGreaterThan(0);
      expect(outcomes.refused).toBeGreaterThan(0);
    },
    LONG ? 3_600_000 : 30_000,
  );

  it('is refused wherever it is cut', async () => {
    for (let length = 0; length < gguf.length; length += 1 + Math.floor(length / 50)) {
      const bytes = gguf.subarray(0, length);
      expect(await attempt(bytes, use(bytes))).toBe('refused');
    }
  });
});

describe('safetensors', () => {
  const whole = file('models/stories260K/model.safetensors');
  const header = 8 + Number(new DataView(whole.buffer).getBigUint64(0, true));

  const use = (bytes: Uint8Array) => async (source: ByteSource) => readAll(bytes, await openSafetensors(source));

  it('opens as it is', async () => {
    expect(await attempt(whole, use(whole))).toBe('opened');
  });

  it.each([
    ['header', header, mutations],
    ['first bytes', 120, mutations],
    [
      'header, a character at a time',
      header,
      mutations.map((list) =>
        list.slice(0, 1).map((m) => ({ ...m, kind: 'byte' as const, value: BigInt(48 + (m.place % 10)) })),
      ),
    ],
  ])(
    'is right or refused with CheckpointError, whatever is changed in its %s',
    async (_, stretch, changes) => {
      const outcomes = { opened: 0, refused: 0 };
      await fc.assert(
        fc.asyncProperty(changes, async (list) => {
          const bytes = mutate(whole, stretch, list);
          outcomes[await attempt(bytes, use(bytes))]++;
        }),
        { numRuns: Math.ceil(numRuns / 4) },
      );
      expect(outcomes.refused).toBeGreaterThan(0);
    },
    LONG ? 3_600_000 : 30_000,
  );

  it('is refused wherever it is cut', async () => {
    for (let length = 0; length < whole.length; length += 1 + Math.floor(length / 30)) {
      const bytes = whole.subarray(0, length);
      expect(await attempt(bytes, use(bytes))).toBe('refused');
    }
  });
});
