import {
  BLOCK_TOKENS,
  type LogitsRow,
  type Runner,
  type SampledRow,
  type SamplingParams,
  type SlotStart,
} from '../runner.ts';

export const GREEDY: SamplingParams = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0n, sampleIndex: 0 };

/** The block ids first, first + 1, … that hold `tokens` tokens. */
export function blocksFor(tokens: number, first = 0): number[] {
  return Array.from({ length: Math.ceil(tokens / BLOCK_TOKENS) }, (_, i) => first + i);
}

/** A greedy logits row without logprobs, unless `more` says otherwise. */
export function logitsRow(row: number, slot: number, more: Partial<LogitsRow> = {}): LogitsRow {
  return { row, slot, sampling: GREEDY, outputPosition: 0, logprob: false, topLogprobs: 0, ...more };
}

/** A slot's start that adjusts nothing, unless `more` says otherwise. */
export function slotStart(slot: number, more: Partial<SlotStart> = {}): SlotStart {
  return {
    slot,
    outputIds: [],
    frequencyPenalty: 0,
    presencePenalty: 0,
    repetitionPenalty: 1,
    stopIds: [],
    minNewTokens: 0,
    biases: [],
    logprobIds: [],
    ...more,
  };
}

/** Generates `count` ids after `prompt` in slot 0, started with `start`, with the adapter of slot `adapter`: the prompt in one step, then one row a step. */
export async function generate(
  runner: Runner,
  prompt: readonly number[],
  count: number,
  more: Partial<LogitsRow> = {},
  start: Partial<SlotStart> = {},
  adapter?: number,
): Promise<SampledRow[]> {
  const adapted = adapter === undefined ? {} : { adapter };
  const blockTable = blocksFor(prompt.length + count);
  const moreTables = runner.limits.kvGroups.slice(1).map(() => blockTable);
  const rows: SampledRow[] = [];
  for (let i = 0; i < count; i++) {
    const sequence =
      i === 0
        ? { slot: 0, tokens: prompt, startPosition: 0, blockTable, moreTables, ...adapted }
        : {
            slot: 0,
            tokens: 'slot' as const,
            startPosition: prompt.length + i - 1,
            blockTable,
            moreTables,
            ...adapted,
          };
    const row = i === 0 ? prompt.length - 1 : 0;
    const [sampled] = await runner.step({
      sequences: [sequence],
      logits: [logitsRow(row, 0, { ...more, outputPosition: i })],
      starts: i === 0 ? [slotStart(0, start)] : [],
    });
    rows.push(sampled!);
  }
  return rows;
}
