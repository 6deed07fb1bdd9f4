import type { TokenBytes } from '../checkpoint/token-bytes.ts';
import type { LogitsRow } from '../model/runner.ts';
import type { FinishReason } from './event.ts';
import { type KvKey, SequenceKv } from './kv-cache.ts';
import type { EngineRequest, RequestedSample } from './request.ts';
import { StopMatcher } from './stop-matcher.ts';

/** Why a sequence ended, and what ended it. */
export interface Ending {
  readonly reason: FinishReason;
  readonly matched: number | string | undefined;
}

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
  /** Tokens being drawn by the steps under way: they follow `ids`, and only the GPU knows them. */
  drawing = 0;
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
  /** Counts its starts: a step planned before a retraction says nothing about the blocks held after it. */
  residency = 0;
  /** Times that a later arrival was admitted before it. */
  overtaken = 0;
  /** The tokens made elsewhere complete a stop: there is nothing more to make. */
  readonly ending: Ending | undefined;
  /** It ended, was aborted or failed: what a step under way still brings for it is dropped. */
  ended = false;
  readonly #stops: StopMatcher;
  readonly #stopTokens: ReadonlySet<number>;

  constructor(
    request: EngineRequest,
    sample: RequestedSample,
    tokens: TokenBytes,
    order: { readonly arrival: number; readonly arrivedAt: number; readonly kvRoot: string },
  ) {
    this.request = request;
    this.index = sample.index;
    this.arrival = order.arrival;
    this.arrivedAt = order.arrivedAt;
    this.kvKey = { root: order.kvRoot, private: false };
    this.ids = [...request.inputIds, ...sample.emittedIds];
    this.credit = sample.credit;
    this.#stopTokens = new Set(request.stopTokenIds);
    this.#stops = new StopMatcher(request.stopStrings, tokens, request);
    for (const id of sample.emittedIds) this.ending = this.#stop(id);
  }

  /** It starts, or starts over, with its first `tokens` computed. */
  begunAt(tokens: number): void {
    this.computed = tokens;
    this.confirmed = tokens;
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

  /** It waits for the relay's credit; its KV stays as long as nobody needs it. */
  get parked(): boolean {
    return this.outputLength + this.drawing >= this.credit && !this.prefillOnly;
  }

  get prefillOnly(): boolean {
    return this.request.maxNewTokens === 0;
  }

  /** Whether its next step draws a token from one row. */
  get decodes(): boolean {
    return this.pendingRows === 1 && this.room > 0 && !this.parked;
  }

  /** Prefill rows that may be computed now: the row that draws waits for credit. */
  get prefillRows(): number {
    if (this.drawing > 0) return 0;
    return this.pendingRows - (this.parked ? 1 : 0);
  }

  /** Tokens whose KV is whole and whose ids are known; the last one's KV isn't made until the next is drawn. */
  get shareable(): number {
    return Math.min(this.confirmed, Math.max(0, this.ids.length - 1));
  }

  /** How the next token is drawn from the logits of row `row` of a step. */
  logitsRow(row: number): LogitsRow {
    const { sampling, outputLogprobs, topLogprobs } = this.request;
    return {
      row,
      slot: this.slot,
      sampling: { ...sampling, sampleIndex: this.index },
      outputPosition: this.outputLength + this.drawing,
      logprob: outputLogprobs,
      topLogprobs: outputLogprobs ? topLogprobs : 0,
    };
  }

  /**
   * Takes a drawn token, and says whether it ends the sequence: length first, then stop tokens, then stop strings
   * (SGLang's order).
   */
  append(id: number): Ending | undefined {
    this.ids.push(id);
    this.drawing--;
    const stop = this.#stop(id);
    return this.outputLength >= this.request.maxNewTokens ? { reason: 'length', matched: undefined } : stop;
  }

  #stop(id: number): Ending | undefined {
    const matched = this.#stops.push(id);
    if (this.#stopTokens.has(id)) return { reason: 'stop', matched: id };
    return matched === undefined ? undefined : { reason: 'stop', matched };
  }
}
