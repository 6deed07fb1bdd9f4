import { type PackedStep, packStep, type SequenceEntry } from '../gpu/pack-step.ts';
import { firstVisibleBlock } from '../gpu/visible-blocks.ts';
import { countRows } from './count-rows.ts';
import { draftGuesses } from './draft-guesses.ts';
import { type HostEntry, logitsEntries } from './logits-entries.ts';
import {
  BLOCK_TOKENS,
  type BlockCopy,
  NO_BLOCK,
  type RunnerLimits,
  type StepBatch,
  type StepSequence,
} from './runner.ts';
import { maxCountedIds, type SlotTraits, startSlots } from './slot-traits.ts';
import { isIndex, StepError } from './step-error.ts';

/** Decode steps of one step at most. */
export const MAX_REPEAT = 16;

/** What a step is in numbers: its packed metadata, and what the host has to know to encode and read back. */
export interface EncodedStep extends PackedStep {
  /** The rows that have no mask, then those that wait for one. */
  readonly logits: readonly HostEntry[];
  readonly masked: number;
  /** Top logprobs of all rows together. */
  readonly top: number;
  /** Logprobs of slots' ids of all rows together. */
  readonly ids: number;
  /** Rows whose hidden states are told. */
  readonly hidden: number;
  /** Every slot's traits once the step is submitted. */
  readonly slots: readonly SlotTraits[];
  /** Some row has an adapter. */
  readonly adapted: boolean;
  readonly copies: number;
  readonly repeat: number;
}

/** What a runner can take. */
export interface StepRoom {
  readonly limits: RunnerLimits;
  /** Splits that attention's scratch holds. */
  readonly splitItems: number;
}

/** Checks `batch` against limits and slots (one a slot), and packs it. Throws StepError. */
export function encodeStep(
  into: Uint32Array<ArrayBuffer>,
  batch: StepBatch,
  { limits, splitItems }: StepRoom,
  slotsBefore: readonly SlotTraits[],
): EncodedStep {
  const { copies = [], starts = [], repeat = 1 } = batch;
  const { hiddenSize } = limits;
  const rows = checkSequences(batch.sequences, repeat, limits);
  const slots = startSlots(slotsBefore, starts, limits);
  const logits = logitsEntries(batch.logits, rows, slots, limits, draftGuesses(batch, hiddenSize));
  checkRepeat(batch, repeat, hiddenSize);
  checkCopies(copies, limits);
  const slotsAfter = countDraws(slots, logits, repeat, limits);
  const packed = packStep(
    into,
    batch.sequences.map((one) => sequenceEntry(one, hiddenSize)),
    logits,
    splitItems,
    { copies, repeat, windows: limits.kvGroups.map(({ window }) => window) },
  );
  return {
    ...packed,
    logits,
    masked: logits.filter(({ mask }) => mask !== undefined).length,
    top: logits.reduce((sum, { top }) => sum + top, 0),
    ids: logits.reduce((sum, { ids }) => sum + (ids ?? 0), 0),
    hidden: logits.filter(({ hidden }) => hidden).length,
    slots: slotsAfter,
    adapted: batch.sequences.some(({ adapter }) => adapter !== undefined),
    copies: copies.length,
    repeat,
  };
}

function sequenceEntry({ tokens, ...rest }: StepSequence, hiddenSize: number): SequenceEntry {
  return tokens === 'slot' || !('embeddings' in tokens)
    ? { ...rest, tokens }
    : { ...rest, tokens: { length: countRows(tokens, hiddenSize) }, embedded: true };
}

/** Slots with penalties count what they draw, and have room for as many different ids as a context has. */
function countDraws(
  slots: readonly SlotTraits[],
  logits: readonly HostEntry[],
  repeat: number,
  limits: RunnerLimits,
): readonly SlotTraits[] {
  const counting = logits.filter(({ slot, scored }) => scored === undefined && slots[slot]!.penalised);
  if (counting.length === 0) return slots;
  const counted = [...slots];
  const room = maxCountedIds(limits);
  for (const { slot, draft } of counting) {
    if (draft !== undefined) {
      counted[slot] = { ...slots[slot]!, drawn: 'draft' };
      continue;
    }
    const outputs = slots[slot]!.outputs + repeat;
    if (outputs > room && room < limits.vocabSize) {
      throw new StepError(`slot ${slot} draws ${outputs} outputs since its start, in a context of ${room}`);
    }
    counted[slot] = { ...slots[slot]!, outputs, drawn: 'rows' };
  }
  return counted;
}

function checkSequences(sequences: readonly StepSequence[], repeat: number, limits: RunnerLimits): number {
  if (sequences.length > limits.maxSequences) {
    throw new StepError(`${sequences.length} sequences, at most ${limits.maxSequences}`);
  }
  const slots = new Set<number>();
  let rows = 0;
  sequences.forEach((sequence, i) => {
    const fail = (reason: string): never => {
      throw new StepError(`sequence ${i}: ${reason}`);
    };
    const { slot, tokens, startPosition, adapter } = sequence;
    if (adapter !== undefined && !isIndex(adapter, limits.maxAdapters ?? 0)) {
      fail(`adapter ${adapter} is not below ${limits.maxAdapters ?? 0}`);
    }
    if (!isIndex(slot, limits.maxSequences)) fail(`slot ${slot} is not below ${limits.maxSequences}`);
    if (slots.has(slot)) fail(`slot ${slot} occurs twice`);
    slots.add(slot);
    const count = countRows(tokens, limits.hiddenSize);
    if (count < 1) fail('no rows');
    if (!Number.isInteger(count)) fail(`embeddings are not rows of ${limits.hiddenSize}`);
    const end = startPosition + count + repeat - 1;
    if (!isIndex(startPosition, limits.contextLength) || end > limits.contextLength) {
      fail(`positions ${startPosition} … ${end - 1} in a context of ${limits.contextLength}`);
    }
    const wrong = tablesProblem(sequence, end, limits);
    if (wrong !== undefined) fail(wrong);
    const problem = tokensProblem(tokens, limits);
    if (problem !== undefined) fail(problem);
    rows += count;
  });
  if (rows < 1) throw new StepError('a step has at least one row');
  if (rows > limits.maxRows) throw new StepError(`${rows} rows, at most ${limits.maxRows}`);
  return rows;
}

/** Each KV group's table has the blocks that rows see or write, of its own pool; `end`: past the last row. */
function tablesProblem(sequence: StepSequence, end: number, { kvGroups }: RunnerLimits): string | undefined {
  const { startPosition, blockTable, moreTables = [] } = sequence;
  if (moreTables.length !== kvGroups.length - 1) {
    return `${moreTables.length + 1} block tables, of ${kvGroups.length} KV groups`;
  }
  const needed = Math.ceil(end / BLOCK_TOKENS);
  for (const [g, { blocks, window }] of kvGroups.entries()) {
    const table = g === 0 ? blockTable : moreTables[g - 1]!;
    const of = g === 0 ? '' : ` of KV group ${g}`;
    const first = firstVisibleBlock(window, startPosition);
    if (needed - first > blocks) return `${needed - first} blocks, of a pool of ${blocks}${of}`;
    if (table.length < needed) return `${table.length} blocks in its table${of}, ${needed} needed`;
    for (let b = 0; b < needed; b++) {
      if (!isIndex(table[b], blocks) && (b >= first || table[b] !== NO_BLOCK)) {
        return `block ${table[b]} is not below ${blocks}${of}`;
      }
    }
  }
  return undefined;
}

/** Numbers and ids themselves stay out of it: prompts are private. */
function tokensProblem(tokens: StepSequence['tokens'], { vocabSize }: RunnerLimits): string | undefined {
  if (tokens === 'slot') return undefined;
  if ('embeddings' in tokens) {
    const wrong = tokens.embeddings.findIndex((value) => !Number.isFinite(value));
    return wrong < 0 ? undefined : `embeddings: number ${wrong} is not finite`;
  }
  for (let t = 0; t < tokens.length; t++) {
    if (!isIndex(tokens[t], vocabSize)) return `token ${t} is outside the vocabulary of ${vocabSize}`;
  }
  return undefined;
}

/** What no row of a repeated step asks for. */
const NOT_REPEATED = ['masked', 'topLogprobs', 'idLogprobs', 'hidden'] as const;

/** Several decode steps at once: row, sequence and logits row i are the same one's. */
function checkRepeat(batch: StepBatch, repeat: number, hiddenSize: number): void {
  if (!Number.isSafeInteger(repeat) || repeat < 1) throw new StepError(`repeat ${repeat} is not a count of steps`);
  if (repeat === 1) return;
  if (repeat > MAX_REPEAT) throw new StepError(`repeat ${repeat}, at most ${MAX_REPEAT}`);
  const { sequences, logits } = batch;
  const alike = sequences.every(
    ({ slot, tokens }, i) => countRows(tokens, hiddenSize) === 1 && logits[i]?.row === i && logits[i]?.slot === slot,
  );
  if (!alike || logits.length !== sequences.length) {
    throw new StepError('a repeated step has one row a sequence, with its logits');
  }
  logits.forEach((row, i) => {
    const asked =
      NOT_REPEATED.find((name) => row[name]) ?? (['scored', 'draft'] as const).find((name) => row[name] !== undefined);
    if (asked !== undefined) throw new StepError(`logits row ${i}: a repeated step has no ${asked}`);
  });
}

function checkCopies(copies: readonly BlockCopy[], limits: RunnerLimits): void {
  if (copies.length > limits.maxSequences)
    throw new StepError(`${copies.length} copies, at most ${limits.maxSequences}`);
  limits.kvGroups.forEach(({ blocks }, g) => {
    const pairs = copies.map((copy, i) => {
      const pair = g === 0 ? copy : copy.more?.[g - 1];
      if (!pair || (copy.more?.length ?? 0) !== limits.kvGroups.length - 1) {
        throw new StepError(
          `copy ${i}: ${(copy.more?.length ?? 0) + 1} blocks, of ${limits.kvGroups.length} KV groups`,
        );
      }
      return pair;
    });
    const targets = new Set(pairs.map(({ to }) => to));
    pairs.forEach(({ from, to }, i) => {
      if (!isIndex(from, blocks) || !isIndex(to, blocks)) {
        throw new StepError(`copy ${i}: blocks ${from} and ${to} are not both below ${blocks}`);
      }
      if (targets.has(from)) throw new StepError(`copy ${i}: block ${from} is a source and a target`);
    });
    if (targets.size < copies.length) throw new StepError('two copies have the same target');
  });
}
