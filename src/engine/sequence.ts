import type { TokenBytes } from '../checkpoint/token-bytes.ts';
import { BLOCK_TOKENS, type LogitsRow } from '../model/runner.ts';
import type { FinishReason } from './event.ts';
import type { EngineRequest, RequestedSample } from './request.ts';
import { StopMatcher } from './stop-matcher.ts';

/** Why a sequence ended, and what ended it. */
export interface Ending {
  readonly reason: FinishReason;
  readonly matched: number | string | undefined;
}

/** One sample of a request: its ids, how far they are computed, and what it holds of the KV pool. */
export class Sequence {
  readonly request: EngineRequest;
  readonly index: number;
  /** Prompt and output. */
  readonly ids: number[];
  /** Positions whose KV is computed, or will be once the step under way is done. */
  computed = 0;
  /** Output tokens that may be made before the sequence is parked. */
  credit: number;
  /** Prompt tokens found in a prefix cache. */
  readonly cachedTokens = 0;
  /** Held from admission to the end. */
  blocks: readonly number[] = [];
  /** State on the GPU, held from admission to the end; −1 is none. */
  slot = -1;
  /** The tokens made elsewhere complete a stop: there is nothing more to make. */
  readonly ending: Ending | undefined;
  /** It ended, was aborted or failed: what a step under way still brings for it is dropped. */
  ended = false;
  readonly #stops: StopMatcher;
  readonly #stopTokens: ReadonlySet<number>;

  constructor(request: EngineRequest, sample: RequestedSample, tokens: TokenBytes) {
    this.request = request;
    this.index = sample.index;
    this.ids = [...request.inputIds, ...sample.emittedIds];
    this.credit = sample.credit;
    this.#stopTokens = new Set(request.stopTokenIds);
    this.#stops = new StopMatcher(request.stopStrings, tokens, request);
    for (const id of sample.emittedIds) this.ending = this.#stop(id);
  }

  get outputLength(): number {
    return this.ids.length - this.request.inputIds.length;
  }

  /** Rows still to compute before the next token can be drawn: 1 in decode, more in prefill. */
  get pendingRows(): number {
    return this.ids.length - this.computed;
  }

  /** It waits for the relay's credit; its KV stays. */
  get parked(): boolean {
    return this.outputLength >= this.credit && !this.prefillOnly;
  }

  get prefillOnly(): boolean {
    return this.request.maxNewTokens === 0;
  }

  /** How the next token is drawn from the logits of row `row` of a step. */
  logitsRow(row: number): LogitsRow {
    const { sampling, outputLogprobs, topLogprobs } = this.request;
    return {
      row,
      slot: this.slot,
      sampling: { ...sampling, sampleIndex: this.index },
      outputPosition: this.outputLength,
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
    const stop = this.#stop(id);
    return this.outputLength >= this.request.maxNewTokens ? { reason: 'length', matched: undefined } : stop;
  }

  #stop(id: number): Ending | undefined {
    const matched = this.#stops.push(id);
    if (this.#stopTokens.has(id)) return { reason: 'stop', matched: id };
    return matched === undefined ? undefined : { reason: 'stop', matched };
  }
}

/** KV blocks for the longest that a sample of the request can become. The last token drawn needs no KV. */
export function blocksNeeded(request: EngineRequest): number {
  const positions = request.inputIds.length + Math.max(0, request.maxNewTokens - 1);
  return Math.ceil(positions / BLOCK_TOKENS);
}
