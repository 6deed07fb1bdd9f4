import { beforeEach, describe, expect, test } from 'vitest';
import { CpuRunner } from './cpu-runner.ts';
import { MAX_DRAFT, type SampledRow, type SlotStart, type StepBatch } from './runner.ts';
import { blocksFor, GREEDY, generate, logitsRow, slotStart } from './testing/generate.ts';
import { tinyModel } from './testing/tiny-model.ts';

const model = tinyModel(8, { vocabSize: 40, layers: 2 });
let runner: CpuRunner;
beforeEach(async () => {
  runner = await CpuRunner.load(model.checkpoint, model.config, { kvBlocks: 8, maxRows: 64, maxSequences: 4 });
});

const PROMPT = [1, 5, 9, 33];
const sampled = { sampling: { ...GREEDY, temperature: 1, seed: 5n }, logprob: true };
const penalties = { presencePenalty: 1, frequencyPenalty: 0.5, stopIds: [3, 4], minNewTokens: 4 };

/** A step that begins with `id` at `position` of slot 0, output position `at`, and a draft behind. */
function drafted(ids: readonly number[], position: number, at: number, more: Partial<StepBatch> = {}): StepBatch {
  return {
    sequences: [{ slot: 0, tokens: ids, startPosition: position, blockTable: blocksFor(64) }],
    logits: ids.map((_, draft) => logitsRow(draft, 0, { ...sampled, outputPosition: at + draft, draft })),
    ...more,
  };
}

const start = (outputIds: readonly number[], more: Partial<SlotStart> = penalties) => ({
  starts: [slotStart(0, { ...more, outputIds })],
});

test('a right draft tells what single steps tell, bit for bit, with penalties and stops that may not come yet', async () => {
  const single = await generate(runner, PROMPT, 12, sampled, penalties);
  const ids = single.map(({ id }) => id);
  const rows = await runner.step(drafted(ids.slice(2, 8), PROMPT.length + 2, 3, start(ids.slice(0, 3))));
  expect(rows).toEqual(single.slice(3, 9));
});

test('a wrong draft leaves no trace: what comes after it is what came without', async () => {
  const single = await generate(runner, PROMPT, 12, sampled, penalties);
  const ids = single.map(({ id }) => id);
  const wrong = [ids[2]!, ids[3]!, (ids[4]! + 1) % 40, 7, 7];
  const rows = await runner.step(drafted(wrong, PROMPT.length + 2, 3, start(ids.slice(0, 3))));
  expect(rows.slice(0, 2)).toEqual(single.slice(3, 5));
  const more: SampledRow[] = [];
  for (let i = 5; i < 12; i++) {
    const tokens = i === 5 ? [ids[4]!] : ('slot' as const);
    more.push(
      ...(await runner.step({
        sequences: [{ slot: 0, tokens, startPosition: PROMPT.length + i - 1, blockTable: blocksFor(64) }],
        logits: [logitsRow(0, 0, { ...sampled, outputPosition: i })],
        ...(i === 5 ? start(ids.slice(0, 5)) : {}),
      })),
    );
  }
  expect(more).toEqual(single.slice(5));
});

describe('a step is refused where', () => {
  const refused = async (batch: StepBatch, reason: RegExp) => expect(runner.step(batch)).rejects.toThrow(reason);
  const of = (drafts: readonly (number | undefined)[], more: Partial<StepBatch> = {}) => {
    const batch = drafted(
      drafts.map((_, i) => i + 1),
      0,
      0,
      more,
    );
    return { ...batch, logits: batch.logits.map((row, i) => ({ ...row, draft: drafts[i] }) as typeof row) };
  };

  test('a draft has holes, begins late, is too long, or goes past its sequence', async () => {
    await refused(of([0, 0]), /not its draft's next/);
    await refused(of([1, 2]), /begins at 1|before row 0/);
    await refused(of([0, undefined]), /not its draft's next/);
    await refused(of([undefined, 0]), /not its draft's next/);
    await refused(of(Array.from({ length: MAX_DRAFT + 2 }, (_, i) => i)), /draft 17, at most 16/);
    const twice: StepBatch = {
      sequences: [0, 1].map((slot) => ({ slot, tokens: [1], startPosition: 0, blockTable: [slot] })),
      logits: [logitsRow(0, 0, { draft: 0 }), logitsRow(1, 0, { draft: 1 })],
    };
    await refused(twice, /a draft of slot 0 on a row of slot 1/);
  });

  test('a draft is not of ids, is repeated, or scored', async () => {
    const slot = { slot: 0, startPosition: 1, blockTable: [0] };
    const logits = [logitsRow(0, 0, { draft: 1 })];
    await refused({ sequences: [{ ...slot, tokens: 'slot' }], logits }, /given by ids/);
    await refused({ ...of([0]), repeat: 2 }, /no draft/);
    const scored = { sequences: [{ ...slot, tokens: [1] }], logits: [logitsRow(0, 0, { draft: 0, scored: 3 })] };
    await refused(scored, /scored and of a draft/);
  });

  test('a slot with penalties was not started for a draft, or after it', async () => {
    await runner.step({ ...of([0, 1]), ...start([]) });
    await refused(of([0]), /not started anew/);
    await refused(of([undefined]), /not started anew/);
    await runner.step({ ...of([undefined]), ...start([5]) });
    await refused(of([0]), /not started anew/);
    await runner.step({ ...of([0, 1]), ...start([], {}) });
    await runner.step(of([undefined]));
  });
});
