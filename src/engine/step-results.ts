import type { SampledRow } from '../model/runner.ts';
import { constraintFailure } from './constraints.ts';
import type { EngineEvent, InputLogprobsEvent, TokensEvent, TopLogprobs } from './event.ts';
import type { KvCache } from './kv-cache.ts';
import type { Matching } from './matching.ts';
import type { Sequence } from './sequence.ts';
import type { SequenceEnds } from './sequence-ends.ts';
import type { Speculating } from './speculation.ts';
import type { Plan, WantedRow } from './step-builder.ts';

export interface StepResultsOptions {
  readonly kv: KvCache;
  readonly speculation: Speculating | undefined;
  readonly ends: SequenceEnds;
  readonly onEvents: (events: readonly EngineEvent[]) => void;
  /** So many output tokens came. */
  readonly onTokens: (count: number) => void;
  /** A sequence whose token was with its matcher can go on. */
  readonly onMatched: () => void;
  readonly onError: (error: unknown) => void;
}

/** Takes what steps bring: appends tokens, ends sequences, shares what is computed, and tells of it. */
export class StepResults {
  readonly #options: StepResultsOptions;

  constructor(options: StepResultsOptions) {
    this.#options = options;
  }

  /** Returns the tokens that the step's decode rows brought. */
  take(plan: Plan, rows: readonly SampledRow[]): number {
    const { ends, kv, onEvents, onTokens } = this.#options;
    const { wanted, reached } = plan;
    for (const { sequence, computed, residency } of reached) {
      if (!sequence.ended && sequence.residency === residency && sequence.slot >= 0) sequence.confirmed = computed;
    }
    const events = this.#promptEvents(plan, rows);
    let made = 0;
    let brought = 0;
    for (let i = 0; i < rows.length; i++) {
      const { sequence, use, undrawn, guesses } = wanted[i % wanted.length]!;
      const row = rows[i]!;
      if (guesses === 0) {
        const count = this.#verify(sequence, reached, wanted, rows, i);
        brought += count;
        made += this.#takeDraft(sequence, wanted.slice(i, i + count), rows.slice(i, i + count), events);
        continue;
      }
      if (guesses !== undefined) continue;
      brought++;
      // Only rows of drafts are refused.
      if (sequence.ended || undrawn === 'late' || undrawn === 'refused' || use === 'score') continue;
      if (undrawn !== undefined) events.push(this.#endUndrawn(sequence, undrawn, row));
      else if (row.nonFinite) events.push(this.#spoilt(sequence));
      else if (use === 'last') sequence.lastHidden = row.hidden;
      else if (sequence.matching && !sequence.oneLeft) this.#match(sequence, sequence.matching, row);
      else {
        made++;
        events.push(...this.#append(sequence, row, false));
      }
    }
    for (const { sequence } of reached) {
      if (sequence.ended || sequence.slot < 0) continue;
      if (sequence.prefillOnly && sequence.confirmed === sequence.ids.length) {
        events.push(ends.finish(sequence, { reason: 'length', matched: undefined }));
      } else kv.share(sequence.kvKey, sequence.kv, sequence.ids, sequence.shareable);
    }
    onTokens(made);
    if (events.length > 0) onEvents(events);
    return brought;
  }

  /** How many of a draft's rows, the first of them row `first` of the step, count: their ids come one after the other. */
  #verify(
    sequence: Sequence,
    reached: Plan['reached'],
    wanted: readonly WantedRow[],
    rows: readonly SampledRow[],
    first: number,
  ): number {
    const { kv, speculation } = this.#options;
    const guesses = sequence.drafts.guesses!;
    const right = (i: number) => {
      const { id, nonFinite } = rows[first + i]!;
      const { undrawn } = wanted[first + i]!;
      return undrawn === undefined && !nonFinite && id === guesses[i] && wanted[first + i + 1]!.undrawn === undefined;
    };
    let count = 1;
    while (count <= guesses.length && right(count - 1)) count++;
    const residency = reached.find((one) => one.sequence === sequence)!.residency;
    const held = !sequence.ended && sequence.slot >= 0 && sequence.residency === residency;
    sequence.verified(count, held);
    if (held) kv.trim(sequence.kv, sequence.computed);
    speculation?.verified(sequence.drafts.candidate!, guesses.length, count - 1);
    return count;
  }

  /** Takes the rows of a draft that count. Returns the tokens they made by now. */
  #takeDraft(
    sequence: Sequence,
    wanted: readonly WantedRow[],
    rows: readonly SampledRow[],
    events: EngineEvent[],
  ): number {
    let made = 0;
    rows.forEach((row, i) => {
      if (sequence.ended) return;
      const { undrawn } = wanted[i]!;
      const last = i === rows.length - 1;
      if (undrawn === 'met' || undrawn === 'stuck') events.push(this.#endUndrawn(sequence, undrawn, row));
      else if (row.nonFinite) events.push(this.#spoilt(sequence));
      else if (last && sequence.matching && !sequence.oneLeft) {
        sequence.drafts.slotIsAhead = true;
        this.#match(sequence, sequence.matching, row, rows);
      } else {
        // What a guess led to was seen: its constraint isn't met by it.
        made++;
        events.push(...this.#append(sequence, row, false));
      }
    });
    return made;
  }

  /** What the step tells of prompts: each sequence's rows follow one another. */
  #promptEvents({ wanted, reached }: Plan, rows: readonly SampledRow[]): EngineEvent[] {
    const events: EngineEvent[] = [];
    const scored = new Map<Sequence, { readonly wanted: WantedRow; readonly row: SampledRow }[]>();
    for (const [i, one] of wanted.entries()) {
      if (one.use !== 'score' || one.sequence.ended) continue;
      const before = scored.get(one.sequence);
      const entry = { wanted: one, row: rows[i]! };
      if (before) before.push(entry);
      else scored.set(one.sequence, [entry]);
    }
    for (const { sequence } of reached) {
      if (sequence.ended || !sequence.promptLogprobs) continue;
      const told = scored.get(sequence) ?? [];
      const first = sequence.promptLogprobs.takeFirst();
      if (told.some(({ row }) => row.nonFinite)) events.push(this.#spoilt(sequence));
      else if (first || told.length > 0) events.push(promptEvent(sequence, told, first));
    }
    return events;
  }

  /** Where all that may follow is a stop that min_new_tokens withholds, the constraint wins: the output is complete. */
  #endUndrawn(sequence: Sequence, why: 'met' | 'stuck', row: SampledRow): EngineEvent {
    const { ends } = this.#options;
    // Without a token, it is the last prompt position's hidden state that is told.
    if (sequence.outputLength === 0) sequence.lastHidden = row.hidden;
    if (why === 'met') return ends.finish(sequence, sequence.endingAsMet);
    return ends.fail(sequence, 'invalid_argument', "the constraint asks for what the model's vocabulary can't write");
  }

  /** The token, after those of `rows` that were told, is told once its matcher has taken it: till then it isn't known whether it is the last. */
  #match(sequence: Sequence, matching: Matching, row: SampledRow, rows: readonly SampledRow[] = [row]): void {
    const { ends, kv, onEvents, onTokens, onMatched, onError } = this.#options;
    const take = () => {
      if (sequence.ended) return;
      sequence.drafts.slotIsAhead = false;
      const events = this.#append(sequence, row, matching.finished);
      if (sequence.slot >= 0) kv.share(sequence.kvKey, sequence.kv, sequence.ids, sequence.shareable);
      onTokens(1);
      onEvents(events);
      onMatched();
    };
    const fail = (error: unknown) => {
      if (sequence.ended) return;
      const { code, message } = constraintFailure(error);
      ends.failAll([sequence], code, message);
      onMatched();
    };
    const ids = rows.map(({ id }) => id);
    matching.accept(ids, take, fail).catch(onError);
  }

  #append(sequence: Sequence, row: SampledRow, constraintFinished: boolean): EngineEvent[] {
    const offset = sequence.outputLength;
    const ending = sequence.append(row.id, constraintFinished);
    const tokens: TokensEvent = {
      type: 'tokens',
      jobId: sequence.request.jobId,
      index: sequence.index,
      offset,
      ids: [row.id],
      cachedTokens: sequence.cachedTokens ?? 0,
      logprobs: row.logprob === undefined ? [] : [row.logprob],
      topLogprobs: row.top === undefined ? [] : [row.top],
      idLogprobs: row.idLogprobs === undefined ? [] : [row.idLogprobs],
      hiddenStates: row.hidden === undefined ? [] : [row.hidden],
    };
    return ending ? [tokens, this.#options.ends.finish(sequence, ending)] : [tokens];
  }

  #spoilt(sequence: Sequence): EngineEvent {
    const { ends, kv } = this.#options;
    const failed = ends.fail(sequence, 'internal', 'the logits hold a NaN or an infinity');
    // What led here may be cached, and would spoil whoever shares it.
    kv.flush();
    return failed;
  }
}

const NO_TOP: TopLogprobs = { ids: new Uint32Array(), logprobs: new Float32Array() };

/** `first`: position 0 is told too, which comes before the rows. */
function promptEvent(
  sequence: Sequence,
  told: readonly { readonly wanted: WantedRow; readonly row: SampledRow }[],
  first: boolean,
): InputLogprobsEvent {
  const { jobId, topLogprobs, logprobIds } = sequence.request;
  const logprobs: (number | undefined)[] = first ? [undefined] : [];
  const top: TopLogprobs[] = first ? [NO_TOP] : [];
  const ids: Float32Array[] = first ? [new Float32Array()] : [];
  for (const { row } of told) {
    logprobs.push(row.logprob);
    top.push(row.top ?? NO_TOP);
    ids.push(row.idLogprobs ?? new Float32Array());
  }
  return {
    type: 'input-logprobs',
    jobId,
    index: sequence.index,
    position: first ? 0 : told[0]!.wanted.position + 1,
    logprobs,
    topLogprobs: topLogprobs > 0 ? top : [],
    idLogprobs: logprobIds.length > 0 ? ids : [],
  };
}
