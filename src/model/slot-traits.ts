import { servedPositions } from './kv-layout.ts';
import type { RunnerLimits, SlotStart } from './runner.ts';
import { isIndex, StepError } from './step-error.ts';

/** The largest finite f32. */
const FLOAT_MAX = 3.4028234663852886e38;

/** What the host knows of a slot's state on the GPU: which rows it adjusts, and how much there is to tell. */
export interface SlotTraits {
  readonly penalised: boolean;
  readonly biased: boolean;
  /** Its stop ids can't be drawn below this output position. */
  readonly minNewTokens: number;
  readonly logprobIds: number;
  /** Outputs counted so far, where penalties count them. */
  readonly outputs: number;
  /** Where it counts draws: what it drew since its start. A draft's rows are the first, and nothing follows them. */
  readonly drawn: 'nothing' | 'rows' | 'draft';
}

/** Of a slot that nothing was started in. */
export const PLAIN_SLOT: SlotTraits = {
  penalised: false,
  biased: false,
  minNewTokens: 0,
  logprobIds: 0,
  outputs: 0,
  drawn: 'nothing',
};

/** Different output ids that one slot may have to count. */
export function maxCountedIds(limits: RunnerLimits): number {
  return Math.min(limits.vocabSize, positions(limits));
}

/** Positions that a sequence can have. */
function positions({ contextLength, kvGroups }: RunnerLimits): number {
  return servedPositions(kvGroups, contextLength);
}

/** The traits that `starts` give, on top of `slots` (one a slot). Throws StepError. */
export function startSlots(
  slots: readonly SlotTraits[],
  starts: readonly SlotStart[],
  limits: RunnerLimits,
): readonly SlotTraits[] {
  if (starts.length === 0) return slots;
  const started = [...slots];
  const seen = new Set<number>();
  starts.forEach((start, i) => {
    const fail = (reason: string): never => {
      throw new StepError(`start ${i}: ${reason}`);
    };
    const problem = startProblem(start, limits);
    if (problem !== undefined) fail(problem);
    if (seen.has(start.slot)) fail(`slot ${start.slot} occurs twice`);
    seen.add(start.slot);
    started[start.slot] = traitsOf(start);
  });
  return started;
}

function traitsOf(start: SlotStart): SlotTraits {
  return {
    penalised: isPenalised(start),
    biased: start.biases.length > 0,
    minNewTokens: start.stopIds.length > 0 ? start.minNewTokens : 0,
    logprobIds: start.logprobIds.length,
    outputs: start.outputIds.length,
    drawn: 'nothing',
  };
}

/** True where the start's draws are counted and penalised. */
export function isPenalised({ frequencyPenalty, presencePenalty, repetitionPenalty }: SlotStart): boolean {
  return frequencyPenalty !== 0 || presencePenalty !== 0 || repetitionPenalty !== 1;
}

/** What is wrong with a start, by name; undefined: nothing, a slot can have it. Ids stay out of it: they are private. */
export function startProblem(start: SlotStart, limits: RunnerLimits): string | undefined {
  const { slot, outputIds, frequencyPenalty, presencePenalty, repetitionPenalty, minNewTokens } = start;
  if (!isIndex(slot, limits.maxSequences)) return `slot ${slot} is not below ${limits.maxSequences}`;
  for (const [name, value] of Object.entries({ frequencyPenalty, presencePenalty })) {
    if (!(value >= -2 && value <= 2)) return `${name} ${value} is not in [-2, 2]`;
  }
  if (!(repetitionPenalty > 0 && repetitionPenalty <= 2))
    return `repetitionPenalty ${repetitionPenalty} is not in (0, 2]`;
  if (!isIndex(minNewTokens, 2 ** 32)) return `minNewTokens ${minNewTokens} is not a u32`;
  if (outputIds.length > positions(limits)) {
    return `${outputIds.length} outputIds in a context of ${positions(limits)}`;
  }
  const lists = { outputIds, stopIds: start.stopIds, logprobIds: start.logprobIds };
  for (const [name, ids] of Object.entries(lists)) {
    for (let i = 0; i < ids.length; i++) {
      if (!isIndex(ids[i], limits.vocabSize)) return `${name} ${i} is outside the vocabulary of ${limits.vocabSize}`;
    }
  }
  if (start.logprobIds.length > limits.maxLogprobIds) {
    return `${start.logprobIds.length} logprobIds, at most ${limits.maxLogprobIds}`;
  }
  return biasesProblem(start.biases, limits);
}

function biasesProblem(biases: SlotStart['biases'], limits: RunnerLimits): string | undefined {
  if (biases.length > limits.maxBiases) return `${biases.length} biases, at most ${limits.maxBiases}`;
  const seen = new Set<number>();
  for (const [i, { id, bias }] of biases.entries()) {
    if (!isIndex(id, limits.vocabSize)) return `bias ${i}: its id is outside the vocabulary of ${limits.vocabSize}`;
    if (seen.has(id)) return `bias ${i}: its id occurs twice`;
    seen.add(id);
    if (!(Math.abs(bias) <= FLOAT_MAX)) return `bias ${i}: ${bias} is not a finite f32`;
  }
  return undefined;
}
