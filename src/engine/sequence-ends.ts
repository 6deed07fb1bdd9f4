import type { FailureCode } from '../contract/failure-codes.ts';
import type { EngineEvent, FailedEvent, FinishedEvent } from './event.ts';
import type { Ending } from './output-stops.ts';
import type { Scheduler } from './scheduler.ts';
import type { Sequence } from './sequence.ts';

/** Ends sequences: takes them out of their queues and gives back what they hold. */
export class SequenceEnds {
  readonly #scheduler: Scheduler;
  readonly #onEvents: (events: readonly EngineEvent[]) => void;

  constructor(scheduler: Scheduler, onEvents: (events: readonly EngineEvent[]) => void) {
    this.#scheduler = scheduler;
    this.#onEvents = onEvents;
  }

  /** Ends it, for whoever tells its events. */
  finish(sequence: Sequence, ending: Ending): FinishedEvent {
    this.drop(sequence);
    const { lastHidden } = sequence;
    return {
      type: 'finished',
      jobId: sequence.request.jobId,
      index: sequence.index,
      ...ending,
      completionTokens: sequence.outputLength,
      cachedTokens: sequence.cachedTokens ?? 0,
      ...(lastHidden === undefined ? {} : { hiddenState: lastHidden }),
    };
  }

  /** Fails it, for whoever tells its events. */
  fail(sequence: Sequence, code: FailureCode, message: string): FailedEvent {
    this.drop(sequence);
    return { type: 'failed', jobId: sequence.request.jobId, index: sequence.index, code, message };
  }

  /** Fails those that haven't ended, and says so. */
  failAll(sequences: readonly Sequence[], code: FailureCode, message: string): void {
    const live = sequences.filter((sequence) => !sequence.ended);
    if (live.length > 0) this.#onEvents(live.map((sequence) => this.fail(sequence, code, message)));
  }

  /** Ends it without a word. */
  drop(sequence: Sequence): void {
    sequence.ended = true;
    this.#scheduler.remove(sequence);
    sequence.matching?.close();
    sequence.adapter?.release();
  }
}
