import {
  BLOCK_TOKENS,
  type BlockCopy,
  type LogitsRow,
  type SlotStart,
  type StepBatch,
  type StepSequence,
} from '../model/runner.ts';
import type { RowUse } from './sample-rows.ts';
import type { Sequence } from './sequence.ts';

/**
 * Why a masked row's draw counts for nothing: its mask came too late; the constraint is met and nothing could follow
 * but an end that min_new_tokens withholds; or nothing can follow, and it isn't met; or the row is of a draft, and a guess
 * before it can't come, or ends the output, or wasn't judged in time.
 */
export type Undrawn = 'late' | 'met' | 'stuck' | 'refused';

/** A logits row of a step: whose it is, and for what. */
export interface WantedRow {
  readonly sequence: Sequence;
  readonly use: RowUse;
  /** Of the row in its sequence. */
  readonly position: number;
  /** Guesses of its sequence's draft before it; undefined: it is of no draft. */
  readonly guesses?: number;
  /** Set once it is known. */
  undrawn: Undrawn | undefined;
}

/** A step, and what it does for each sequence. */
export interface Plan {
  readonly batch: StepBatch;
  /** What is behind each logits row. */
  readonly wanted: readonly WantedRow[];
  /** Of them: those that are drawn once their masks have come. */
  readonly masked: readonly WantedRow[];
  /** How far each sequence of the step will be computed, in which residency. */
  readonly reached: readonly { readonly sequence: Sequence; readonly computed: number; readonly residency: number }[];
  readonly prefillRows: number;
  /** One a sequence in decode; `draftRows` come on top. */
  readonly decodeRows: number;
  readonly draftRows: number;
}

/** Gathers one step's rows. */
export class StepBuilder {
  readonly #usedSlots: Set<number>;
  readonly #sequences: StepSequence[] = [];
  readonly #starts: SlotStart[] = [];
  readonly #logits: LogitsRow[] = [];
  readonly #wanted: WantedRow[] = [];
  readonly #reached: Plan['reached'][number][] = [];
  #prefillRows = 0;
  #decodeRows = 0;
  #draftRows = 0;

  /** `usedSlots`: those that may hold another sequence's state; kept true. */
  constructor(usedSlots: Set<number>) {
    this.#usedSlots = usedSlots;
  }

  get rows(): number {
    return this.#prefillRows + this.#decodeRows + this.#draftRows;
  }

  decode(sequence: Sequence, steps: number): void {
    this.#add(sequence, 1, steps);
    this.#decodeRows++;
    sequence.drawing += steps;
  }

  /** Its decode row, and one for each guess. */
  draft(sequence: Sequence, guesses: readonly number[]): void {
    sequence.restartSlot();
    this.#start(sequence);
    const { computed: startPosition, residency } = sequence;
    const tokens = [...sequence.ids.slice(startPosition), ...guesses];
    for (let i = 0; i < tokens.length; i++) {
      this.#logits.push(sequence.draftRow(this.rows + i, i));
      this.#wanted.push({ sequence, use: 'draw', position: startPosition + i, guesses: i, undrawn: undefined });
    }
    sequence.computed += tokens.length;
    sequence.drawing += tokens.length;
    sequence.drafts.guesses = guesses;
    this.#sequences.push(stepSequence(sequence, tokens, startPosition));
    // What is refused of it is computed again.
    this.#reached.push({ sequence, computed: startPosition, residency });
    this.#decodeRows++;
    this.#draftRows += guesses.length;
  }

  prefill(sequence: Sequence, rows: number): void {
    const draws = this.#add(sequence, rows, rows);
    this.#prefillRows += rows;
    if (draws) sequence.drawing++;
  }

  plan(copies: readonly BlockCopy[], repeat: number): Plan {
    return {
      batch: { sequences: this.#sequences, logits: this.#logits, copies, starts: this.#starts, repeat },
      wanted: this.#wanted,
      masked: this.#wanted.filter((_, i) => this.#logits[i]!.masked),
      reached: this.#reached,
      prefillRows: this.#prefillRows,
      decodeRows: this.#decodeRows,
      draftRows: this.#draftRows,
    };
  }

  /** Adds the next `rows` rows of a sequence, which goes on by `advance` positions. True: the last one draws. */
  #add(sequence: Sequence, rows: number, advance: number): boolean {
    this.#start(sequence);
    const startPosition = sequence.computed;
    const tokens = sequence.tokensTo(startPosition + rows);
    let draws = false;
    for (let i = 0; i < rows; i++) {
      const position = startPosition + i;
      const use = sequence.useOf(position);
      if (use === undefined) continue;
      this.#logits.push(sequence.logitsRow(use, this.rows + i, position));
      this.#wanted.push({ sequence, use, position, undrawn: undefined });
      draws = use === 'draw';
    }
    sequence.computed += advance;
    const { computed, residency } = sequence;
    this.#sequences.push(stepSequence(sequence, tokens, startPosition));
    this.#reached.push({ sequence, computed, residency });
    return draws;
  }

  #start(sequence: Sequence): void {
    if (sequence.slotStarted) return;
    sequence.slotStarted = true;
    const { slot, adjustsSlot } = sequence;
    if (!adjustsSlot && !this.#usedSlots.has(slot)) return;
    this.#starts.push(sequence.slotStart());
    if (adjustsSlot) this.#usedSlots.add(slot);
    else this.#usedSlots.delete(slot);
  }
}

/** Its rows from `startPosition` up to what is computed with them. */
function stepSequence(sequence: Sequence, tokens: StepSequence['tokens'], startPosition: number): StepSequence {
  const { slot, kv, computed, adapter } = sequence;
  const blocks = Math.ceil(computed / BLOCK_TOKENS);
  const [blockTable, ...moreTables] = kv.tables.map((table) => table.slice(0, blocks));
  return {
    slot,
    tokens,
    startPosition,
    blockTable: blockTable!,
    moreTables,
    ...(adapter ? { adapter: adapter.slot } : {}),
  };
}
