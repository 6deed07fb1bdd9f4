import { type LogitsEntry, type PackedStep, packStep } from '../gpu/pack-step.ts';
import {
  BLOCK_TOKENS,
  type BlockCopy,
  type LogitsRow,
  type RunnerLimits,
  type SamplingParams,
  type StepBatch,
  type StepSequence,
} from './runner.ts';

/** The largest finite f32. */
const FLOAT_MAX = 3.4028234663852886e38;

/** Decode steps of one step at most. */
export const MAX_REPEAT = 16;

/** A step that breaks the runner's limits, or contradicts itself; the message names the field. */
export class StepError extends Error {
  override readonly name = 'StepError';
}

/** What a step is in numbers: its packed metadata, and what the host has to know to encode and read back. */
export interface EncodedStep extends PackedStep {
  readonly logits: readonly LogitsEntry[];
  /** Top logprobs of all rows together. */
  readonly top: number;
  readonly copies: number;
  readonly repeat: number;
}

/** Checks `batch` against `limits` and packs it. Throws StepError. */
export function encodeStep(
  into: Uint32Array<ArrayBuffer>,
  batch: StepBatch,
  limits: RunnerLimits,
  splitItemCapacity: number,
): EncodedStep {
  const { copies = [], repeat = 1 } = batch;
  const rows = checkSequences(batch.sequences, repeat, limits);
  const logits = logitsEntries(batch.logits, rows, limits);
  checkRepeat(batch, repeat);
  checkCopies(copies, limits);
  const top = logits.reduce((sum, entry) => sum + entry.top, 0);
  const packed = packStep(into, batch.sequences, logits, splitItemCapacity, { copies, repeat });
  return { ...packed, logits, top, copies: copies.length, repeat };
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
    const { slot, tokens, startPosition, blockTable } = sequence;
    if (!isIndex(slot, limits.maxSequences)) fail(`slot ${slot} is not below ${limits.maxSequences}`);
    if (slots.has(slot)) fail(`slot ${slot} occurs twice`);
    slots.add(slot);
    const count = tokens === 'slot' ? 1 : tokens.length;
    if (count < 1) fail('no rows');
    const end = startPosition + count + repeat - 1;
    if (!isIndex(startPosition, limits.contextLength) || end > limits.contextLength) {
      fail(`positions ${startPosition} … ${end - 1} in a context of ${limits.contextLength}`);
    }
    const blocks = Math.ceil(end / BLOCK_TOKENS);
    if (blocks > limits.blocks) fail(`${blocks} blocks, of a pool of ${limits.blocks}`);
    if (blockTable.length < blocks) fail(`${blockTable.length} blocks in its table, ${blocks} needed`);
    for (let b = 0; b < blocks; b++) {
      if (!isIndex(blockTable[b], limits.blocks)) fail(`block ${blockTable[b]} is not below ${limits.blocks}`);
    }
    for (let t = 0; tokens !== 'slot' && t < count; t++) {
      // The id itself stays out of the message: prompts are private.
      if (!isIndex(tokens[t], limits.vocabSize)) fail(`token ${t} is outside the vocabulary of ${limits.vocabSize}`);
    }
    rows += count;
  });
  if (rows < 1) throw new StepError('a step has at least one row');
  if (rows > limits.maxRows) throw new StepError(`${rows} rows, at most ${limits.maxRows}`);
  return rows;
}

/** Several decode steps at once: row, sequence and logits row i are the same one's. */
function checkRepeat(batch: StepBatch, repeat: number): void {
  if (!Number.isSafeInteger(repeat) || repeat < 1) throw new StepError(`repeat ${repeat} is not a count of steps`);
  if (repeat === 1) return;
  if (repeat > MAX_REPEAT) throw new StepError(`repeat ${repeat}, at most ${MAX_REPEAT}`);
  const { sequences, logits } = batch;
  const alike = sequences.every(
    ({ slot, tokens }, i) =>
      (tokens === 'slot' || tokens.length === 1) && logits[i]?.row === i && logits[i]?.slot === slot,
  );
  if (!alike || logits.length !== sequences.length) {
    throw new StepError('a repeated step has one row a sequence, with its logits');
  }
  if (logits.some(({ topLogprobs }) => topLogprobs > 0)) throw new StepError('a repeated step has no top logprobs');
}

function checkCopies(copies: readonly BlockCopy[], limits: RunnerLimits): void {
  if (copies.length > limits.maxSequences)
    throw new StepError(`${copies.length} copies, at most ${limits.maxSequences}`);
  const targets = new Set(copies.map(({ to }) => to));
  copies.forEach(({ from, to }, i) => {
    if (!isIndex(from, limits.blocks) || !isIndex(to, limits.blocks)) {
      throw new StepError(`copy ${i}: blocks ${from} and ${to} are not both below ${limits.blocks}`);
    }
    if (targets.has(from)) throw new StepError(`copy ${i}: block ${from} is a source and a target`);
  });
  if (targets.size < copies.length) throw new StepError('two copies have the same target');
}

function logitsEntries(logits: readonly LogitsRow[], rows: number, limits: RunnerLimits): LogitsEntry[] {
  if (logits.length > limits.maxLogitsRows) {
    throw new StepError(`${logits.length} logits rows, at most ${limits.maxLogitsRows}`);
  }
  const lastOfSlot = new Map(logits.map((entry, i) => [entry.slot, i]));
  let topAt = 0;
  return logits.map((entry, i) => {
    const fail = (reason: string): never => {
      throw new StepError(`logits row ${i}: ${reason}`);
    };
    if (!isIndex(entry.row, rows)) fail(`row ${entry.row} is not below ${rows}`);
    if (i > 0 && entry.row < logits[i - 1]!.row) fail('rows are not in ascending order');
    if (!isIndex(entry.slot, limits.maxSequences)) fail(`slot ${entry.slot} is not below ${limits.maxSequences}`);
    if (!isIndex(entry.outputPosition, 2 ** 32)) fail(`outputPosition ${entry.outputPosition} is not a u32`);
    if (!isIndex(entry.topLogprobs, limits.maxTopLogprobs + 1)) {
      fail(`topLogprobs ${entry.topLogprobs}, at most ${limits.maxTopLogprobs}`);
    }
    const { temperature, topK, topP, minP, seed, sampleIndex } = entry.sampling;
    const problem = samplingProblem(entry.sampling);
    if (problem !== undefined) fail(problem);
    const at = topAt;
    topAt += entry.topLogprobs;
    return {
      row: entry.row,
      slot: entry.slot,
      writesSlot: lastOfSlot.get(entry.slot) === i,
      sampled: temperature > 0,
      logprob: entry.logprob,
      outputPosition: entry.outputPosition,
      temperature,
      topK,
      topP,
      minP,
      seed,
      sampleIndex,
      top: entry.topLogprobs,
      topAt: at,
    };
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

function isIndex(value: number | undefined, end: number): boolean {
  return Number.isSafeInteger(value) && value! >= 0 && value! < end;
}
