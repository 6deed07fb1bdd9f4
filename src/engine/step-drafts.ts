import { MAX_DRAFT, type RunnerLimits } from '../model/runner.ts';
import type { KvCache } from './kv-cache.ts';
import type { Sequence } from './sequence.ts';
import type { DecodeRows, DraftCandidate, Speculating } from './speculation.ts';
import type { StepRoom } from './step-room.ts';

/** The drafts of the next step's decode rows: chosen by what wins, within credit, context, blocks and room. */
export class StepDrafts {
  readonly #speculation: Speculating;
  readonly #runner: RunnerLimits;
  readonly #kv: KvCache;

  constructor(speculation: Speculating, runner: RunnerLimits, kv: KvCache) {
    this.#speculation = speculation;
    this.#runner = runner;
    this.#kv = kv;
  }

  /** Sequences whose ids are being drawn would draft, by what is known of them, once these are there: that is waited for. */
  awaited(running: readonly Sequence[]): boolean {
    const decodes = running.filter(({ room, drawing, parked }) => drawing > 0 || (room > 0 && !parked));
    const candidates = decodes.flatMap((sequence) => {
      const { drawing, room, parked } = sequence;
      return drawing > 0 && room > 0 && !parked ? (this.#candidate(sequence, MAX_DRAFT) ?? []) : [];
    });
    if (candidates.length === 0) return false;
    const free = this.#runner.maxRows - decodes.length;
    if (!this.#speculation.lengths(rowsOf(decodes), free, candidates)) return false;
    this.#speculation.awaited();
    return true;
  }

  /** What each of the decode rows drafts that the step verifies; undefined: none does. */
  choose(decodes: readonly Sequence[], room: StepRoom): ReadonlyMap<Sequence, readonly number[]> | undefined {
    const able = decodes.flatMap((sequence) => {
      const most = Math.min(sequence.draftRoom, this.#runner.contextLength - sequence.computed - 1, MAX_DRAFT);
      const candidate = most > 0 ? this.#candidate(sequence, most) : undefined;
      return candidate ? [{ sequence, candidate }] : [];
    });
    if (able.length === 0) return undefined;
    const free = this.#runner.maxRows - decodes.length;
    const candidates = able.map(({ candidate }) => candidate);
    const lengths = this.#speculation.lengths(rowsOf(decodes), free, candidates);
    let masks = this.#runner.maxSequences - decodes.filter(({ request }) => request.constraint).length;
    const drafts = new Map<Sequence, readonly number[]>();
    able.forEach(({ sequence, candidate }, i) => {
      const masked = sequence.request.constraint !== undefined;
      const most = Math.min(lengths?.[i] ?? 0, masked ? masks : Number.POSITIVE_INFINITY);
      const length = this.#roomFor(sequence, most, room);
      if (length === 0) return;
      if (masked) masks -= length;
      const guesses = candidate.draft.ids.slice(0, length);
      sequence.drafts.candidate = candidate;
      sequence.matching?.look(guesses);
      drafts.set(sequence, guesses);
    });
    return drafts.size > 0 ? drafts : undefined;
  }

  /** Takes room and blocks for up to `most` more rows; nobody gives way to guesses. */
  #roomFor(sequence: Sequence, most: number, room: StepRoom): number {
    let rows = most;
    while (rows > 0 && !this.#kv.extend(sequence.kv, sequence.computed + 1 + rows)) rows--;
    let length = 0;
    while (length < rows && room.takeMore(sequence.rows.drawShare)) length++;
    return length;
  }

  #candidate(sequence: Sequence, most: number): DraftCandidate | undefined {
    const { drafts, ids } = sequence;
    drafts.drafter ??= this.#speculation.newDrafter();
    const draft = drafts.drafter.draft(ids, most);
    return draft && { draft, acceptance: drafts.acceptance };
  }
}

/** Of a step that these decode in. */
function rowsOf(decodes: readonly Sequence[]): DecodeRows {
  return { sequences: decodes.length, repeatable: decodes.every((sequence) => sequence.repeatable) };
}
