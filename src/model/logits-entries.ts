import type { LogitsEntry } from '../gpu/pack-step.ts';
import type { LogitsRow, RunnerLimits, SamplingParams } from './runner.ts';
import type { SlotTraits } from './slot-traits.ts';
import { isIndex, StepError } from './step-error.ts';

/** The largest finite f32. */
const FLOAT_MAX = 3.4028234663852886e38;

/** A logits row as kernels see it, with what the host reads back for it. */
export interface HostEntry extends LogitsEntry {
  /** Which of the batch's rows it is. */
  readonly index: number;
  /** Logprobs of slot's ids that it tells; undefined: they aren't asked for. */
  readonly ids: number | undefined;
  readonly hidden: boolean;
  /** Of a draft's row: the guesses that penalties count. */
  readonly guesses?: readonly number[] | undefined;
}

/**
 * The step's logits rows: those that have no mask first, each kind in the batch's order. `guesses`: of drafts' rows, see
 * draftGuesses. Throws StepError.
 */
export function logitsEntries(
  logits: readonly LogitsRow[],
  rows: number,
  slots: readonly SlotTraits[],
  limits: RunnerLimits,
  guesses: readonly (readonly number[] | undefined)[] = [],
): HostEntry[] {
  if (logits.length > limits.maxLogitsRows) {
    throw new StepError(`${logits.length} logits rows, at most ${limits.maxLogitsRows}`);
  }
  logits.forEach((row, i) => {
    const problem = rowProblem(row, logits[i - 1]?.row ?? 0, rows, limits);
    if (problem !== undefined) throw new StepError(`logits row ${i}: ${problem}`);
  });
  checkDraws(logits, slots);
  const lastOfSlot = new Map<number, number>();
  logits.forEach(({ slot, scored }, i) => {
    if (scored === undefined) lastOfSlot.set(slot, i);
  });
  const order = [...logits.keys()].sort((a, b) => Number(!!logits[a]!.masked) - Number(!!logits[b]!.masked) || a - b);
  let topAt = 0;
  let idsAt = 0;
  let masks = 0;
  let hidden = 0;
  const entries = order.map((index): HostEntry => {
    const row = logits[index]!;
    const traits = slots[row.slot]!;
    const ids = row.idLogprobs ? traits.logprobIds : undefined;
    const entry = {
      ...(row.scored === undefined ? drawn(row, traits) : scoredEntry(row.scored)),
      index,
      row: row.row,
      slot: row.slot,
      writesSlot: lastOfSlot.get(row.slot) === index && row.scored === undefined,
      logprob: row.logprob,
      outputPosition: row.outputPosition,
      top: row.topLogprobs,
      topAt,
      ids,
      idLogprobs: (ids ?? 0) > 0,
      idsAt,
      mask: row.masked ? masks : undefined,
      hidden: !!row.hidden,
      draft: row.draft,
      guesses: guesses[index],
    };
    topAt += row.topLogprobs;
    idsAt += ids ?? 0;
    if (row.masked) masks++;
    if (row.hidden) hidden++;
    return entry;
  });
  if (masks > limits.maxSequences) throw new StepError(`${masks} masked rows, at most ${limits.maxSequences}`);
  if (topAt > limits.maxTop) throw new StepError(`${topAt} top logprobs, at most ${limits.maxTop}`);
  if (idsAt > limits.maxTop) throw new StepError(`${idsAt} logprobs of slots' ids, at most ${limits.maxTop}`);
  if (hidden > limits.maxHiddenRows) throw new StepError(`${hidden} hidden rows, at most ${limits.maxHiddenRows}`);
  return entries;
}

type Draw = Pick<
  HostEntry,
  'sampled' | 'scored' | 'adjusted' | 'temperature' | 'topK' | 'topP' | 'minP' | 'seed' | 'sampleIndex'
>;

function drawn({ sampling, outputPosition }: LogitsRow, traits: SlotTraits): Draw {
  const { temperature, topK, topP, minP, seed, sampleIndex } = sampling;
  return {
    sampled: temperature > 0,
    scored: undefined,
    adjusted: traits.penalised || traits.biased || outputPosition < traits.minNewTokens,
    temperature,
    topK,
    topP,
    minP,
    seed,
    sampleIndex,
  };
}

function scoredEntry(scored: number): Draw {
  const greedy = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0n, sampleIndex: 0 };
  return { ...greedy, sampled: false, scored, adjusted: false };
}

function rowProblem(entry: LogitsRow, rowBefore: number, rows: number, limits: RunnerLimits): string | undefined {
  if (!isIndex(entry.row, rows)) return `row ${entry.row} is not below ${rows}`;
  if (entry.row < rowBefore) return 'rows are not in ascending order';
  if (!isIndex(entry.slot, limits.maxSequences)) return `slot ${entry.slot} is not below ${limits.maxSequences}`;
  if (!isIndex(entry.outputPosition, 2 ** 32)) return `outputPosition ${entry.outputPosition} is not a u32`;
  if (!isIndex(entry.topLogprobs, limits.maxTopLogprobs + 1)) {
    return `topLogprobs ${entry.topLogprobs}, at most ${limits.maxTopLogprobs}`;
  }
  if (entry.scored !== undefined) {
    // The id itself stays out of the message: prompts are private.
    if (!isIndex(entry.scored, limits.vocabSize)) return `scored is outside the vocabulary of ${limits.vocabSize}`;
    if (entry.masked) return 'scored and masked';
    if (entry.draft !== undefined) return 'scored and of a draft';
    return undefined;
  }
  return samplingProblem(entry.sampling);
}

/** A slot whose next draw depends on the one before draws one row a step. */
function checkDraws(logits: readonly LogitsRow[], slots: readonly SlotTraits[]): void {
  const drawnBefore = new Map<number, LogitsRow>();
  logits.forEach((row, i) => {
    if (row.scored !== undefined) return;
    const before = drawnBefore.get(row.slot);
    drawnBefore.set(row.slot, row);
    const { drawn } = slots[row.slot]!;
    if (drawn === 'draft' || (drawn === 'rows' && row.draft !== undefined)) {
      throw new StepError(
        `logits row ${i}: slot ${row.slot} counts draws, and was not started anew for or after a draft`,
      );
    }
    if ((row.draft ?? 0) > 0 && before?.draft === undefined) {
      throw new StepError(`logits row ${i}: a draft begins at ${row.draft}`);
    }
    if (!before) return;
    if (before.draft !== undefined && row.draft === before.draft + 1 && row.row === before.row + 1) return;
    if (before.draft !== undefined || row.draft !== undefined) {
      throw new StepError(`logits row ${i}: slot ${row.slot} draws a row that is not its draft's next`);
    }
    if (row.masked || before.masked) throw new StepError(`logits row ${i}: slot ${row.slot} draws two rows, masked`);
    if (slots[row.slot]!.penalised) {
      throw new StepError(`logits row ${i}: slot ${row.slot} draws two rows, with penalties`);
    }
  });
}

/** What is wrong with sampling parameters, by name; undefined: nothing, a step can have them. */
export function samplingProblem({ temperature, topK, topP, minP, sampleIndex }: SamplingParams): string | undefined {
  if (!(temperature >= 0 && temperature <= FLOAT_MAX))
    return `temperature ${temperature} is not a finite f32 from 0 on`;
  if (!isIndex(topK, 2 ** 32)) return `topK ${topK} is not a u32`;
  if (!(topP > 0 && topP <= 1)) return `topP ${topP} is not in (0, 1]`;
  if (!(minP >= 0 && minP <= 1)) return `minP ${minP} is not in [0, 1]`;
  if (!isIndex(sampleIndex, 2 ** 32)) return `sampleIndex ${sampleIndex} is not a u32`;
  return undefined;
}
