import { type LogitsEntry, type PackedStep, packStep } from '../gpu/pack-step.ts';
import { BLOCK_TOKENS, type LogitsRow, type RunnerLimits, type StepBatch, type StepSequence } from './runner.ts';

/** A step that breaks the runner's limits, or contradicts itself; the message names the field. */
export class StepError extends Error {
  override readonly name = 'StepError';
}

/** What a step is in numbers: its packed metadata, and what the host has to know to encode and read back. */
export interface EncodedStep extends PackedStep {
  readonly logits: readonly LogitsEntry[];
  /** Top logprobs of all rows together. */
  readonly top: number;
}

/** Checks `batch` against `limits` and packs it. Throws StepError. */
export function encodeStep(
  into: Uint32Array<ArrayBuffer>,
  batch: StepBatch,
  limits: RunnerLimits,
  splitItemCapacity: number,
): EncodedStep {
  const rows = checkSequences(batch.sequences, limits);
  const logits = logitsEntries(batch.logits, rows, limits);
  const top = logits.reduce((sum, entry) => sum + entry.top, 0);
  return { ...packStep(into, batch.sequences, logits, splitItemCapacity), logits, top };
}

function checkSequences(sequences: readonly StepSequence[], limits: RunnerLimits): number {
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
    if (!isIndex(startPosition, limits.contextLength) || startPosition + count > limits.contextLength) {
      fail(`positions ${startPosition} … ${startPosition + count - 1} in a context of ${limits.contextLength}`);
    }
    const blocks = Math.ceil((startPosition + count) / BLOCK_TOKENS);
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
    if (!(temperature >= 0 && temperature < 1e30)) fail(`temperature ${temperature}`);
    if (!isIndex(topK, 2 ** 32)) fail(`topK ${topK}`);
    if (!(topP > 0 && topP <= 1)) fail(`topP ${topP} is not in (0, 1]`);
    if (!(minP >= 0 && minP <= 1)) fail(`minP ${minP} is not in [0, 1]`);
    if (!isIndex(sampleIndex, 2 ** 32)) fail(`sampleIndex ${sampleIndex} is not a u32`);
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

function isIndex(value: number | undefined, end: number): boolean {
  return Number.isSafeInteger(value) && value! >= 0 && value! < end;
}
