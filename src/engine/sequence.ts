import type { TokenBytes } from '../checkpoint/token-bytes.ts';
import type { LogitsRow, SlotStart, StepSequence } from '../model/runner.ts';
import type { KvKey } from './kv-key.ts';
import type { LoraHold } from './lora-adapters.ts';
import type { Matching } from './matching.ts';
import { type Ending, OutputStops } from './output-stops.ts';
import { PromptLogprobs } from './prompt-logprobs.ts';
import type { EngineRequest, RequestedSample } from './request.ts';
import { NO_SHARE, type RowShare } from './row-share.ts';
import { type RowUse, SampleRows } from './sample-rows.ts';
import { SequenceDrafts } from './sequence-drafts.ts';
import { SequenceKv } from './sequence-kv.ts';
import { Stops } from './stops.ts';

/** One sample of a request: its ids, how far they are computed, and what it holds of the KV cache. */
export class Sequence {
  readonly request: EngineRequest;
  readonly index: number;
  /** Order of arrival. */
  readonly arrival: number;
  /** When it arrived, in milliseconds of the engine's clock. */
  readonly arrivedAt: number;
  /** Prompt and output. */
  readonly ids: number[];
  readonly kv = new SequenceKv();
  readonly kvKey: KvKey;
  /** Its adapter; it lets go of it when it ends. */
  readonly adapter: LoraHold | undefined;
  /** Where it tells the prompt's logprobs: how far it has got. */
  readonly promptLogprobs: PromptLogprobs | undefined;
  /** Its way through its request's constraint, once that is compiled. */
  matching: Matching | undefined;
  /** Kernels that draw as it asks are yet to be compiled. */
  awaitsKernels = false;
  /** Tokens being drawn by the steps under way, or drawn and with its matcher: they follow `ids`. */
  drawing = 0;
  readonly drafts = new SequenceDrafts();
  /** Positions whose KV is computed once the steps under way are done. */
  computed = 0;
  /** Positions whose KV is computed. */
  confirmed = 0;
  /** Output tokens that may be made before the sequence is parked. */
  credit: number;
  /** Prompt tokens found in the prefix cache at its first start; undefined before. */
  cachedTokens: number | undefined;
  /** State on the GPU, held while it runs; −1 is none. */
  slot = -1;
  /** Its slot's state on the GPU is its own. */
  slotStarted = false;
  /** Counts its starts: a step planned before a retraction says nothing about the blocks held after it. */
  residency = 0;
  /** Times that a later arrival was admitted before it. */
  overtaken = 0;
  /** The step that last kept room for what its rows tell. */
  keptRoomAt = 0;
  /** Of the last prompt position, where it is told and no token is made. */
  lastHidden: Float32Array | undefined;
  /** The tokens made elsewhere complete a stop: there is nothing more to make. */
  readonly ending: Ending | undefined;
  /** It ended, was aborted or failed: what a step under way still brings for it is dropped. */
  ended = false;
  /** What it asks of steps' rows. */
  readonly rows: SampleRows;
  readonly #stops: OutputStops;

  /** `stops`: the request's, which its samples share. */
  constructor(
    request: EngineRequest,
    sample: RequestedSample,
    tokens: TokenBytes,
    order: {
      readonly arrival: number;
      readonly arrivedAt: number;
      readonly kvRoot: string;
      readonly adapter?: LoraHold | undefined;
    },
    stops = new Stops(request.stopTokenIds, request.stopStrings),
  ) {
    this.request = request;
    this.index = sample.index;
    this.arrival = order.arrival;
    this.arrivedAt = order.arrivedAt;
    this.adapter = order.adapter;
    this.kvKey = { root: order.kvRoot, private: request.inputEmbeds !== undefined };
    this.ids = [...request.inputIds, ...sample.emittedIds];
    this.credit = sample.credit;
    const { logprobStart, inputIds } = request;
    const tellsPrompt = logprobStart !== undefined && sample === request.samples[0];
    this.promptLogprobs = tellsPrompt ? new PromptLogprobs(logprobStart, inputIds.length) : undefined;
    this.rows = new SampleRows(request, sample.index, tellsPrompt);
    this.#stops = new OutputStops(stops, tokens, request);
    for (const id of sample.emittedIds) this.ending = this.#stops.push(id);
  }

  /** It starts, or starts over, with its first `tokens` computed. */
  begunAt(tokens: number): void {
    this.computed = tokens;
    this.confirmed = tokens;
    this.slotStarted = false;
    // What it found when it first started is what is told, also if it starts again later.
    if (this.residency <= 1) this.cachedTokens = Math.min(tokens, this.request.inputIds.length - 1);
  }

  get outputLength(): number {
    return this.ids.length - this.request.inputIds.length;
  }

  /** Its length once the steps under way are done. */
  get plannedLength(): number {
    return this.ids.length + this.drawing;
  }

  /** Rows still to compute before the next token can be drawn: 1 in decode, more in prefill. */
  get pendingRows(): number {
    return this.plannedLength - this.computed;
  }

  /** Tokens that may still be drawn before it reaches its maximum. */
  get room(): number {
    return this.request.maxNewTokens - this.outputLength - this.drawing;
  }

  /** The next token is its last, whatever it is. */
  get oneLeft(): boolean {
    return this.outputLength + 1 >= this.request.maxNewTokens;
  }

  /** It waits for the relay's credit; its KV stays as long as nobody needs it. */
  get parked(): boolean {
    return this.outputLength + this.drawing >= this.credit && !this.prefillOnly;
  }

  get prefillOnly(): boolean {
    return this.request.maxNewTokens === 0;
  }

  /** Its constraint is being compiled, or kernels that it can't do without. */
  get compiling(): boolean {
    return this.awaitsKernels || (this.request.constraint !== undefined && this.matching === undefined);
  }

  /** Whether its next step draws a token from one row. */
  get decodes(): boolean {
    // A matcher that took too long once is waited for before the next row, which then makes nobody wait.
    const waits = this.matching?.late === true && this.drawing > 0;
    return (
      this.pendingRows === 1 &&
      this.room > 0 &&
      !this.parked &&
      !waits &&
      !(this.drafts.slotIsAhead && this.drawing > 0)
    );
  }

  /** Prefill rows that may be computed now: the row that draws waits for credit. */
  get prefillRows(): number {
    if (this.drawing > 0) return 0;
    const { inputIds, inputEmbeds } = this.request;
    // Embeddings and ids don't mix in one step.
    const given = inputEmbeds && this.computed < inputIds.length ? inputIds.length - this.computed : Infinity;
    return Math.min(given, this.pendingRows - (this.parked ? 1 : 0));
  }

  /** Ids that a draft of its next step may have: each may be its last token, but not one more. */
  get draftRoom(): number {
    if (this.drawing > 0 || this.#isEmbedded) return 0;
    return Math.min(this.room, this.credit - this.outputLength) - 1;
  }

  /** Several decode steps at once would do for its next row what single ones do. */
  get repeatable(): boolean {
    const { top, ids, hidden } = this.rows.drawShare;
    return top + ids + hidden === 0 && this.request.constraint === undefined && !this.#isEmbedded;
  }

  /** Its next row is given by an embedding. */
  get #isEmbedded(): boolean {
    return this.request.inputEmbeds !== undefined && this.computed < this.request.inputIds.length;
  }

  /** Tokens whose KV is whole and whose ids are known; the last one's KV isn't made until the next is drawn. */
  get shareable(): number {
    return Math.min(this.confirmed, Math.max(0, this.ids.length - 1));
  }

  /** Tokens that may be found computed: the rows behind them tell something. */
  get cacheLimit(): number {
    return Math.min(this.ids.length - 1, this.promptLogprobs?.firstRow ?? Infinity);
  }

  /** Stop ids that can't be drawn yet, `guesses` tokens from here. */
  withheldIds(guesses: number): readonly number[] {
    const { minNewTokens, maskedStopIds } = this.request.sampling;
    return this.outputLength + guesses < minNewTokens ? maskedStopIds : [];
  }

  /** The stop string that its tokens complete stands behind its constraint's end, should they be that too. */
  get mayEndAsMet(): boolean {
    return this.request.constraint !== undefined && typeof this.ending?.matched === 'string';
  }

  /** How it ends where its constraint is met by what it has. */
  get endingAsMet(): Ending {
    return { reason: 'stop', matched: this.outputLength > 0 ? this.ids.at(-1) : undefined };
  }

  /** What the row at `position` is for, if it is computed next. */
  useOf(position: number): RowUse | undefined {
    if (position === this.plannedLength - 1) {
      if (!this.prefillOnly) return 'draw';
      return this.request.hiddenStates ? 'last' : undefined;
    }
    return this.promptLogprobs?.tells(position) ? 'score' : undefined;
  }

  /** What that row takes of a step's limits. */
  shareOf(position: number): RowShare {
    const use = this.useOf(position);
    if (use === undefined) return NO_SHARE;
    return use === 'draw' ? this.rows.drawShare : use === 'score' ? this.rows.scoreShare : this.rows.lastShare;
  }

  /** The most that any of its rows may take. */
  get rowShare(): RowShare {
    return this.rows.mostShare;
  }

  /** The row at `position` as a step's row number `row`, for `use`. */
  logitsRow(use: RowUse, row: number, position: number): LogitsRow {
    const place = { row, slot: this.slot };
    if (use === 'draw') return this.rows.drawn(place, this.outputLength + this.drawing);
    if (use === 'last') return this.rows.last(place, this.ids[position]!);
    this.promptLogprobs?.planned(position);
    return this.rows.scored(place, this.ids[position + 1]!);
  }

  /** The row that verifies its draft's guess number `draft`, or draws what follows the last, as a step's row number `row`. */
  draftRow(row: number, draft: number): LogitsRow {
    return { ...this.rows.drawn({ row, slot: this.slot }, this.outputLength + draft), draft };
  }

  /** What the rows of positions `computed` … `end` − 1 are made from. */
  tokensTo(end: number): StepSequence['tokens'] {
    const { inputEmbeds, inputIds } = this.request;
    if (inputEmbeds && this.computed < inputIds.length) {
      const width = inputEmbeds.length / inputIds.length;
      return { embeddings: inputEmbeds.subarray(this.computed * width, end * width) };
    }
    // A token still being drawn is known on the GPU only.
    return this.drawing > 0 ? 'slot' : this.ids.slice(this.computed, end);
  }

  /** What its slot is told before its first row. */
  slotStart(): SlotStart {
    return this.rows.slotStart(this.slot, this.ids.slice(this.request.inputIds.length));
  }

  /** Whether its slot has to be told of it. */
  get adjustsSlot(): boolean {
    return this.rows.adjusts;
  }

  /** The slot counts draws, but none of a draft: each step with one starts it, and so does the step after. */
  restartSlot(): void {
    if (this.rows.counts) this.slotStarted = false;
  }

  /** Its draft was verified: of the draws, the first `count` are its next tokens. `held`: it has kept its blocks since. */
  verified(count: number, held: boolean): void {
    const refused = this.drafts.guesses!.length + 1 - count;
    this.drafts.guesses = undefined;
    this.drawing -= refused;
    if (!held) return;
    this.computed -= refused;
    this.confirmed = this.computed;
    this.restartSlot();
  }

  /** The row planned last draws in vain: it is computed again once its mask is known. */
  withdrawDraw(): void {
    this.drawing--;
    this.computed--;
    // What was drawn counts nowhere.
    this.slotStarted = false;
  }

  /**
   * Takes a drawn token, and says whether it ends the sequence: length first, then the constraint, then stop tokens,
   * then stop strings (SGLang's order).
   */
  append(id: number, constraintFinished: boolean): Ending | undefined {
    this.ids.push(id);
    this.drawing--;
    const stop = this.#stops.push(id);
    if (this.outputLength >= this.request.maxNewTokens) return { reason: 'length', matched: undefined };
    return constraintFinished ? { reason: 'stop', matched: id } : stop;
  }
}
