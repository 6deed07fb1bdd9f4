import { Attention, type AttentionShape, splitItemBytes } from './attention.ts';
import type { AttentionChoice, AttentionForm } from './attention-choice.ts';
import type { DeviceWatch } from './device-watch.ts';
import { KernelTrial } from './kernel-trial.ts';
import type { SequenceEntry } from './pack-step.ts';
import { timePass } from './pass-timer.ts';

/** How long anything may take. */
const BOUND_MS = 30_000;
/** Of a prompt's chunk, and the keys before it. */
const [CHUNK_ROWS, BEFORE] = [64, 192];
/** Keys of a row that decodes. */
const DECODE_KEYS = 1_024;

/** Milliseconds of a form of attention, as whole rows of a prompt's chunk and as parts of a row that decodes. */
export type AttentionTimes = Readonly<Record<keyof AttentionChoice, number>>;

/** Times a form of attention in the model's shape, over zeros. */
export async function timeAttention(
  watch: DeviceWatch,
  shape: AttentionShape,
  form: AttentionForm,
): Promise<AttentionTimes> {
  const trial = new KernelTrial(watch, BOUND_MS);
  try {
    const blockTable = Array.from({ length: DECODE_KEYS / 16 }, (_, i) => i);
    const time = async (sequence: SequenceEntry, rows: number) => {
      const { buffer: step, packed } = await trial.step([sequence]);
      const numbers = rows * shape.heads * shape.headSize;
      const [query, kv, parts, output] = await Promise.all([
        trial.zeros(numbers),
        trial.zeros(DECODE_KEYS * 2 * shape.kvHeads * shape.headSize),
        trial.zeros((Math.max(1, packed.work.splitItems) * splitItemBytes(shape)) / 4),
        trial.zeros(numbers),
      ]);
      const choice: AttentionChoice = { whole: form, parts: form };
      const attention = await Attention.create(trial.gpu, shape, { step, query, kv, parts, output }, choice);
      return timePass(trial, (pass) => attention.encode(pass, packed.work));
    };
    const chunk = { slot: 0, tokens: new Uint32Array(CHUNK_ROWS), startPosition: BEFORE, blockTable };
    const decode = { slot: 0, tokens: 'slot', startPosition: DECODE_KEYS - 1, blockTable } as const;
    return { whole: await time(chunk, CHUNK_ROWS), parts: await time(decode, 1) };
  } finally {
    trial.close();
  }
}
