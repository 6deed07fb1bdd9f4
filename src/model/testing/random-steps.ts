import { packIdSet } from '../../gpu/slot-layout.ts';
import { Random } from '../../gpu/testing/random.ts';
import type { LogitsRow, RunnerLimits, SampledRow, SlotStart, StepBatch, StepSequence } from '../runner.ts';
import { blocksFor, GREEDY, logitsRow, slotStart } from './generate.ts';

/** A step and the masks that its masked rows get, in order. */
export interface RandomStep {
  readonly batch: StepBatch;
  readonly masks: readonly (Uint32Array | undefined)[];
}

interface Live {
  length: number;
  /** Tokens of the prompt that are still to come. */
  rest: number[];
  outputs: number;
  readonly seed: bigint;
  /** Its slot has to be started again. */
  stale: boolean;
}

/** Blocks that each slot owns. */
const SLOT_BLOCKS = 6;

/**
 * Steps as an engine makes them, with everything that a step can ask for: sequences that start in slots, prompts in
 * chunks with scored rows, decode rows from slots, ids and embeddings, masked and repeated ones.
 */
export class RandomSteps {
  readonly #random: Random;
  readonly #limits: RunnerLimits;
  readonly #embedding: (id: number) => Float32Array;
  readonly #live: (Live | undefined)[];

  /** `limits` with at least SLOT_BLOCKS blocks a slot. `embedding`: of an id, in place of which it may be given. */
  constructor(seed: number, limits: RunnerLimits, embedding: (id: number) => Float32Array) {
    this.#random = new Random(seed);
    this.#limits = limits;
    this.#embedding = embedding;
    this.#live = new Array(limits.maxSequences).fill(undefined);
  }

  next(): RandomStep {
    const sequences: StepSequence[] = [];
    const starts: SlotStart[] = [];
    const logits: LogitsRow[] = [];
    const decoding: Live[] = [];
    let row = 0;
    for (const slot of this.#random.permutation(this.#limits.maxSequences)) {
      if (sequences.length > 0 && this.#one(4)) continue;
      let live = this.#live[slot];
      if (!live || live.length > SLOT_BLOCKS * 16 - 20 || this.#one(12)) {
        live = this.#begin();
        this.#live[slot] = live;
        starts.push(this.#start(slot));
      }
      const prefill = live.rest.length > 0;
      if (!prefill && this.#one(4)) {
        row += this.#draft(row, slot, live, starts, sequences, logits);
        continue;
      }
      const ids = prefill ? live.rest.splice(0, this.#random.integer(1, 12)) : undefined;
      const count = ids?.length ?? 1;
      const startPosition = live.length;
      const blockTable = blocksFor(SLOT_BLOCKS * 16, slot * SLOT_BLOCKS);
      sequences.push({ slot, tokens: ids ? this.#tokens(ids) : 'slot', startPosition, blockTable });
      const drawn = live.rest.length === 0;
      if (live.stale) starts.push(this.#start(slot));
      live.stale = false;
      for (let i = 0; i < count - (drawn ? 1 : 0); i++) if (this.#one(3)) logits.push(this.#scored(row + i, slot));
      if (drawn) {
        logits.push(this.#draw(row + count - 1, slot, live));
        live.outputs++;
      }
      live.length += count;
      row += count;
      if (!prefill) decoding.push(live);
    }
    const repeatable =
      decoding.length === sequences.length &&
      starts.length === 0 &&
      logits.every(({ draft }) => draft === undefined) &&
      this.#one(2);
    const repeat = repeatable ? this.#random.integer(2, 5) : 1;
    for (const live of decoding) {
      live.length += repeat - 1;
      live.outputs += repeat - 1;
    }
    let masked = 0;
    const few = logits.map((one) =>
      one.masked && ++masked > this.#limits.maxSequences ? { ...one, masked: false } : one,
    );
    const rows = repeat > 1 ? few.map(repeatedRow) : few;
    const masks = rows.filter(({ masked }) => masked).map(() => (this.#one(5) ? undefined : this.#mask()));
    return { batch: { sequences, logits: rows, starts, repeat }, masks };
  }

  /** A row and a draft after it, of which some ids often are alike; so many of them are accepted. Returns its rows. */
  #draft(
    row: number,
    slot: number,
    live: Live,
    starts: SlotStart[],
    sequences: StepSequence[],
    logits: LogitsRow[],
  ): number {
    const masked = this.#one(8);
    const count = this.#random.integer(1, masked ? 2 : 6);
    const few = [this.#id(), this.#id()];
    const tokens = Array.from({ length: count }, () => (this.#one(2) ? few[this.#random.integer(0, 1)]! : this.#id()));
    starts.push(this.#start(slot));
    sequences.push({
      slot,
      tokens,
      startPosition: live.length,
      blockTable: blocksFor(SLOT_BLOCKS * 16, slot * SLOT_BLOCKS),
    });
    for (let draft = 0; draft < count; draft++) {
      logits.push({ ...this.#draw(row + draft, slot, live), draft, masked, outputPosition: live.outputs + draft });
    }
    const accepted = this.#random.integer(1, count);
    live.length += accepted;
    live.outputs += accepted;
    live.stale = true;
    return count;
  }

  #begin(): Live {
    const rest = Array.from({ length: this.#random.integer(1, 25) }, () => this.#id());
    return { length: 0, rest, outputs: 0, seed: BigInt(this.#random.integer(0, 2 ** 31)), stale: false };
  }

  #start(slot: number): SlotStart {
    const uniform = (from: number, to: number) => from + this.#random.uniform() * (to - from);
    const ids = (most: number) => Array.from({ length: this.#random.integer(0, most) }, () => this.#id());
    const penalties = this.#one(2)
      ? { frequencyPenalty: uniform(-2, 2), presencePenalty: uniform(-2, 2), repetitionPenalty: uniform(0.5, 2) }
      : {};
    const biases = this.#one(3)
      ? { biases: [...new Set(ids(8))].map((id) => ({ id, bias: this.#random.normal() * 5 })) }
      : {};
    const stops = this.#one(3) ? { stopIds: ids(6), minNewTokens: this.#random.integer(0, 6) } : {};
    return slotStart(slot, { ...penalties, ...biases, ...stops, outputIds: ids(20), logprobIds: ids(4) });
  }

  #tokens(ids: readonly number[]): StepSequence['tokens'] {
    if (!this.#one(4)) return ids;
    const { hiddenSize } = this.#limits;
    const embeddings = new Float32Array(ids.length * hiddenSize);
    ids.forEach((id, i) => {
      embeddings.set(this.#embedding(id), i * hiddenSize);
    });
    return { embeddings };
  }

  #scored(row: number, slot: number): LogitsRow {
    return logitsRow(row, slot, { scored: this.#id(), ...this.#asked() });
  }

  #draw(row: number, slot: number, { outputs, seed }: Live): LogitsRow {
    const sampling = this.#one(2)
      ? GREEDY
      : { ...GREEDY, temperature: 0.5 + this.#random.uniform(), topP: 0.9, topK: this.#random.integer(0, 20), seed };
    return logitsRow(row, slot, { sampling, outputPosition: outputs, masked: this.#one(4), ...this.#asked() });
  }

  #asked(): Partial<LogitsRow> {
    return {
      logprob: this.#one(2),
      topLogprobs: this.#one(3) ? (this.#one(4) ? this.#limits.vocabSize : this.#random.integer(1, 6)) : 0,
      idLogprobs: this.#one(3),
      hidden: this.#one(4),
    };
  }

  #mask(): Uint32Array {
    const { vocabSize } = this.#limits;
    const allowed = this.#random.permutation(vocabSize).slice(0, this.#random.integer(1, vocabSize));
    return packIdSet(allowed, vocabSize);
  }

  #id(): number {
    return this.#random.integer(0, this.#limits.vocabSize - 1);
  }

  /** True one time in `times`. */
  #one(times: number): boolean {
    return this.#random.integer(1, times) === 1;
  }
}

function repeatedRow({ row, slot, sampling, outputPosition, logprob }: LogitsRow): LogitsRow {
  return logitsRow(row, slot, { sampling, outputPosition, logprob });
}

/** What differs between two runners' results beyond rounding, in words. Ids next to each other may change places. */
export function differences(actual: readonly SampledRow[], expected: readonly SampledRow[]): string[] {
  const found: string[] = [];
  const near = (a: number, b: number) => Math.abs(a - b) <= 1e-3 * (1 + Math.abs(b));
  const lists = (what: string, a: ArrayLike<number> | undefined, b: ArrayLike<number> | undefined) => {
    if (a?.length !== b?.length) found.push(`${what}: ${a?.length} and ${b?.length}`);
    else if (a && b) {
      const at = Array.from(a).findIndex((value, i) => !near(value, b[i]!));
      if (at >= 0) found.push(`${what} ${at}: ${a[at]} and ${b[at]}`);
    }
  };
  if (actual.length !== expected.length) found.push(`${actual.length} and ${expected.length} rows`);
  actual.forEach((row, i) => {
    const other = expected[i]!;
    if (row.id !== other.id) found.push(`row ${i}: id ${row.id} and ${other.id}`);
    if (row.nonFinite || other.nonFinite) found.push(`row ${i}: non-finite`);
    lists(
      `row ${i}: logprob`,
      row.logprob === undefined ? undefined : [row.logprob],
      other.logprob === undefined ? undefined : [other.logprob],
    );
    lists(`row ${i}: id logprobs`, row.idLogprobs, other.idLogprobs);
    lists(`row ${i}: hidden`, row.hidden, other.hidden);
    lists(`row ${i}: top logprobs`, row.top?.logprobs, other.top?.logprobs);
    const { top } = other;
    top?.ids.forEach((id, at) => {
      const apart = (to: number) => to < 0 || to >= top.ids.length || !near(top.logprobs[at]!, top.logprobs[to]!);
      // The last one's own neighbour isn't told.
      const last = at === top.ids.length - 1 && top.ids.length > 1;
      if (apart(at - 1) && apart(at + 1) && !last && row.top?.ids[at] !== id) found.push(`row ${i}: top id ${at}`);
    });
  });
  return found;
}
