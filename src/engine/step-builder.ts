import { BLOCK_TOKENS, type BlockCopy, type LogitsRow, type StepBatch, type StepSequence } from '../model/runner.ts';
import type { Sequence } from './sequence.ts';

/** A step, and what it does for each sequence. */
export interface Plan {
  readonly batch: StepBatch;
  /** The sequence behind each logits row. */
  readonly sampled: readonly Sequence[];
  /** How far each sequence of the step will be computed, in which residency. */
  readonly reached: readonly { readonly sequence: Sequence; readonly computed: number; readonly residency: number }[];
  readonly prefillRows: number;
  readonly decodeRows: number;
}

/** Gathers one step's rows. */
export class StepBuilder {
  readonly #sequences: StepSequence[] = [];
  readonly #logits: LogitsRow[] = [];
  readonly #sampled: Sequence[] = [];
  readonly #reached: Plan['reached'][number][] = [];
  #prefillRows = 0;
  #decodeRows = 0;

  get rows(): number {
    return this.#prefillRows + this.#decodeRows;
  }

  decode(sequence: Sequence, steps: number): void {
    this.#logits.push(sequence.logitsRow(this.rows));
    this.#sampled.push(sequence);
    // A token still being drawn is known on the GPU only.
    this.#add(sequence, sequence.drawing > 0 ? 'slot' : sequence.ids.slice(sequence.computed), steps);
    this.#decodeRows++;
    sequence.drawing += steps;
  }

  prefill(sequence: Sequence, rows: number): void {
    const end = sequence.computed + rows;
    const last = end === sequence.ids.length;
    if (last && !sequence.prefillOnly) {
      this.#logits.push(sequence.logitsRow(this.rows + rows - 1));
      this.#sampled.push(sequence);
    }
    this.#add(sequence, sequence.ids.slice(sequence.computed, end), rows);
    this.#prefillRows += rows;
    if (last && !sequence.prefillOnly) sequence.drawing++;
  }

  plan(copies: readonly BlockCopy[], repeat: number): Plan {
    return {
      batch: { sequences: this.#sequences, logits: this.#logits, copies, repeat },
      sampled: this.#sampled,
      reached: this.#reached,
      prefillRows: this.#prefillRows,
      decodeRows: this.#decodeRows,
    };
  }

  #add(sequence: Sequence, tokens: StepSequence['tokens'], advance: number): void {
    const startPosition = sequence.computed;
    sequence.computed += advance;
    const blocks = Math.ceil(sequence.computed / BLOCK_TOKENS);
    this.#sequences.push({
      slot: sequence.slot,
      tokens,
      startPosition,
      blockTable: sequence.kv.table.slice(0, blocks),
    });
    this.#reached.push({ sequence, computed: sequence.computed, residency: sequence.residency });
  }
}
