import type { LogitsRow, SamplingParams, SlotStart } from '../model/runner.ts';
import type { EngineRequest } from './request.ts';
import { both, NO_SHARE, type RowShare } from './row-share.ts';

/** What a row of a step is for, besides its KV. */
export type RowUse = 'draw' | 'score' | 'last';

/** Row `row` of a step, of the sequence in slot `slot`. */
interface RowPlace {
  readonly row: number;
  readonly slot: number;
}

/** What one sample of a request asks of the rows of a step, and of its slot. */
export class SampleRows {
  /** What a row takes of a step's limits: where an id is drawn, a prompt position is told, the prompt ends undrawn. */
  readonly drawShare: RowShare;
  readonly scoreShare: RowShare;
  readonly lastShare: RowShare;
  /** The most that any one row takes. */
  readonly mostShare: RowShare;
  /** Its slot has to be told of it. */
  readonly adjusts: boolean;
  /** Its slot counts what it draws. */
  readonly counts: boolean;
  readonly #request: EngineRequest;
  readonly #sampling: SamplingParams;

  /** `tellsPrompt`: it is the sample that tells the prompt's logprobs. */
  constructor(request: EngineRequest, sampleIndex: number, tellsPrompt: boolean) {
    this.#request = request;
    const { sampling, outputLogprobs, topLogprobs, logprobIds, hiddenStates, maxNewTokens } = request;
    const { temperature, topK, topP, minP, seed } = sampling;
    this.#sampling = { temperature, topK, topP, minP, seed, sampleIndex };
    const hidden = hiddenStates ? 1 : 0;
    const told = { logits: 1, top: topLogprobs, ids: logprobIds.length, hidden: 0 };
    this.drawShare = { ...(outputLogprobs ? told : { ...NO_SHARE, logits: 1 }), hidden };
    this.scoreShare = tellsPrompt ? told : NO_SHARE;
    this.lastShare = { ...NO_SHARE, logits: hidden, hidden };
    this.mostShare = both(maxNewTokens > 0 ? this.drawShare : this.lastShare, this.scoreShare);
    this.counts = sampling.frequencyPenalty !== 0 || sampling.presencePenalty !== 0 || sampling.repetitionPenalty !== 1;
    this.adjusts =
      this.counts ||
      (sampling.minNewTokens > 0 && sampling.maskedStopIds.length > 0) ||
      sampling.biases.length > 0 ||
      logprobIds.length > 0;
  }

  slotStart(slot: number, outputIds: readonly number[]): SlotStart {
    const { sampling, logprobIds } = this.#request;
    const { frequencyPenalty, presencePenalty, repetitionPenalty, minNewTokens, maskedStopIds, biases } = sampling;
    const penalties = { frequencyPenalty, presencePenalty, repetitionPenalty };
    return { slot, outputIds, ...penalties, stopIds: maskedStopIds, minNewTokens, biases, logprobIds };
  }

  /** The row that the output token at `outputPosition` is drawn from. */
  drawn(place: RowPlace, outputPosition: number): LogitsRow {
    const { outputLogprobs, topLogprobs, logprobIds, hiddenStates, constraint } = this.#request;
    return {
      ...place,
      sampling: this.#sampling,
      outputPosition,
      logprob: outputLogprobs,
      topLogprobs: outputLogprobs ? topLogprobs : 0,
      idLogprobs: outputLogprobs && logprobIds.length > 0,
      masked: constraint !== undefined,
      hidden: hiddenStates,
    };
  }

  /** The row that tells the logprob of `id`, the prompt's next. */
  scored(place: RowPlace, id: number): LogitsRow {
    const { topLogprobs, logprobIds } = this.#request;
    const idLogprobs = logprobIds.length > 0;
    return { ...place, ...this.#undrawn, logprob: true, topLogprobs, idLogprobs, scored: id };
  }

  /** The row of the last prompt position, `id`, where no token is made: it tells its hidden state. */
  last(place: RowPlace, id: number): LogitsRow {
    return { ...place, ...this.#undrawn, logprob: false, topLogprobs: 0, scored: id, hidden: true };
  }

  get #undrawn() {
    return { sampling: this.#sampling, outputPosition: 0 };
  }
}
