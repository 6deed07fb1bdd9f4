import { attentionReference } from './attention.reference.ts';
import { Attention, type AttentionShape, splitItemBytes } from './attention.ts';
import type { AttentionForm } from './attention-choice.ts';
import { expectNear, type KernelTrial } from './kernel-trial.ts';
import { KvPool } from './kv-pool.reference.ts';
import type { SequenceEntry } from './pack-step.ts';
import { TrialData } from './trial-data.ts';

const BLOCKS = 12;
const TOLERANCE = 1e-3;

/** A form of attention over ragged rows, whole and in parts. Rejects with TrialFailure where it is wrong. */
export async function tryAttention(trial: KernelTrial, shape: AttentionShape, form: AttentionForm): Promise<void> {
  const { heads, kvHeads, headSize, window = 0, bidirectional = false, scale, cap } = shape;
  const data = new TrialData(headSize);
  const pool = new KvPool(BLOCKS, kvHeads, headSize);
  pool.values.set(data.numbers(pool.values.length, 2));
  // Prefill from 0, a decode row of three splits, a prompt's last rows, a single first row.
  const sequences: SequenceEntry[] = [
    { slot: 0, tokens: new Uint32Array(5), startPosition: 0, blockTable: [3] },
    { slot: 1, tokens: 'slot', startPosition: 138, blockTable: [7, 0, 9, 4, 2, 11, 1, 10, 5] },
    { slot: 2, tokens: new Uint32Array(3), startPosition: 63, blockTable: [0, 5, 8, 1, 6] },
    { slot: 3, tokens: 'slot', startPosition: 0, blockTable: [6] },
  ];
  const rows = sequences.flatMap(({ tokens, startPosition, blockTable }) => {
    const count = tokens === 'slot' ? 1 : tokens.length;
    return Array.from({ length: count }, (_, i) => {
      const seen = startPosition + i + 1;
      const first = window > 0 ? Math.max(0, seen - window) : 0;
      return { first, end: bidirectional ? startPosition + count : seen, blockTable };
    });
  });
  const query = data.numbers(rows.length * heads * headSize, 2);
  const { buffer: step, packed } = await trial.step(sequences);
  const [queryBuffer, kv, parts, output] = await Promise.all([
    trial.buffer(query),
    trial.buffer(pool.values),
    trial.zeros((packed.work.splitItems * splitItemBytes(shape)) / 4),
    trial.zeros(query.length),
  ]);
  const buffers = { step, query: queryBuffer, kv, parts, output };
  const attention = await Attention.create(trial.gpu, shape, buffers, { whole: form, parts: form });
  const [actual] = await trial.run((pass) => attention.encode(pass, packed.work), [output]);
  const expected = new Float32Array(query.length);
  rows.forEach(({ first, end, blockTable }, row) => {
    for (let head = 0; head < heads; head++) {
      const at = (row * heads + head) * headSize;
      const kvHead = Math.floor(head / (heads / kvHeads));
      const one = { query: query.slice(at, at + headSize), kvHead, blockTable, first, end, scale, cap };
      expected.set(attentionReference(pool, one), at);
    }
  });
  expectNear('number', actual!, expected, TOLERANCE);
}
