import { randomBytes } from 'node:crypto';
import type { ContractError } from '../contract/contract-error.ts';
import type { NormalisedRequest } from '../contract/normalised-request.ts';
import { Signal } from './signal.ts';

/** Output tokens of a sample that may be on their way to the client, unread. */
export const CREDIT_TOKENS = 64;

/** Credits go out in portions of at least this many tokens. */
const GRANT_TOKENS = 32;

export interface Finish {
  readonly reason: 'stop' | 'length' | 'abort';
  readonly matchedTokenId?: number;
  readonly matchedStopString?: string;
}

/** Best logprobs of one position, best first. */
export interface TopOfPosition {
  readonly ids: readonly number[];
  readonly logprobs: readonly number[];
}

/** One token as a node told it. */
export interface NewToken {
  readonly id: number;
  /** Set where asked for. */
  readonly logprob: number | undefined;
  readonly top: TopOfPosition | undefined;
}

/** One of a job's choices. */
export interface Sample {
  readonly index: number;
  readonly ids: number[];
  /** One per id where asked for; emptied behind `sent` where complete leaves them out. */
  readonly logprobs: (number | undefined)[];
  readonly tops: (TopOfPosition | undefined)[];
  /** Ids written to the client's stream. */
  sent: number;
  /** Ids, in all, that a node may have made. */
  credit: number;
  cachedTokens: number | undefined;
  finish: Finish | undefined;
}

/** Where a job runs. */
export interface JobHost {
  /** Tells the node that a sample may go on to `sample.credit`. */
  grant(job: Job, sample: Sample): void;
  /** The job needs the node no more. */
  release(job: Job): void;
}

/** One Generate request at the relay, from its arrival to the end of its stream. */
export class Job {
  readonly id: bigint;
  readonly request: NormalisedRequest;
  /** Key of all its draws. */
  readonly seed: bigint;
  readonly samples: readonly Sample[];
  /** `performance.now()` at arrival. */
  readonly arrivedAt = performance.now();
  firstTokenAt: number | undefined;
  /** The node it runs at; undefined while it waits. */
  host: JobHost | undefined;
  /** It ran at a node that was lost. */
  interrupted = false;
  /** How long it has waited with no node to take it, in milliseconds, since it came or was last interrupted. */
  nodelessMs = 0;
  /** Nodes that failed it: they don't get it again. */
  readonly refusedBy = new Set<string>();
  /** What the last of those said. */
  lastRefusal: ContractError | undefined;
  /** Later ones that a node got first, while it waited. */
  overtaken = 0;
  /** Messages written to the client's stream. */
  messages = 0;
  /** 'complete' once every sample has its finish; an error ends the stream with it; 'left' is a client that is gone. */
  outcome: 'complete' | 'left' | ContractError | undefined;
  /** Something to write, or an outcome. */
  readonly changed = new Signal();
  /** Called once, when the outcome is known. */
  onEnd: ((job: Job) => void) | undefined;
  /** Called at the first token. */
  onFirstToken: ((job: Job) => void) | undefined;
  /** Sample indices in the order their unwritten tokens came. */
  private arrivals: number[] = [];
  private taken = 0;

  constructor(id: bigint, request: NormalisedRequest) {
    this.id = id;
    this.request = request;
    this.seed = request.sampling.seed ?? randomBytes(8).readBigUInt64LE();
    this.samples = Array.from({ length: request.n }, (_, index) => ({
      index,
      ids: [],
      logprobs: [],
      tops: [],
      sent: 0,
      credit: CREDIT_TOKENS,
      cachedTokens: undefined,
      finish: undefined,
    }));
  }

  /** Samples that a node still has to work on. */
  get unfinished(): readonly Sample[] {
    return this.samples.filter((sample) => sample.finish === undefined);
  }

  /** Takes in tokens that were checked before. */
  append(sample: Sample, tokens: readonly NewToken[]): void {
    if (this.outcome !== undefined) return;
    if (this.firstTokenAt === undefined) {
      this.firstTokenAt = performance.now();
      this.onFirstToken?.(this);
    }
    for (const token of tokens) {
      sample.ids.push(token.id);
      if (this.request.outputLogprobs) {
        sample.logprobs.push(token.logprob);
        sample.tops.push(token.top);
      }
      if (this.request.stream) this.arrivals.push(sample.index);
      else sample.sent++;
    }
    if (!this.request.stream) this.extendCredit(sample);
    this.changed.notify();
  }

  finishSample(sample: Sample, finish: Finish): void {
    if (this.outcome !== undefined || sample.finish !== undefined) return;
    sample.finish = finish;
    if (this.samples.every((one) => one.finish !== undefined)) this.end('complete');
    else this.changed.notify();
  }

  /** Ends samples that have all their tokens, where a node was lost before it said so: no other could go on. */
  settleWhole(): void {
    const { maxNewTokens, stopTokenIds } = this.request.sampling;
    for (const sample of this.unfinished) {
      const last = sample.ids.at(-1);
      if (last === undefined) continue;
      if (sample.ids.length >= maxNewTokens) this.finishSample(sample, { reason: 'length' });
      else if (stopTokenIds.includes(last)) this.finishSample(sample, { reason: 'stop', matchedTokenId: last });
    }
  }

  /** The output so far fills what any node can hold: no other token could be made. */
  settleAt(room: number): void {
    for (const sample of this.unfinished) {
      if (sample.ids.length > 0 && sample.ids.length >= room) this.finishSample(sample, { reason: 'length' });
    }
  }

  /** Its node is no longer its host. `begun`: the node had taken it on, so that this interrupts it. */
  leaveHost(begun: boolean): void {
    this.host = undefined;
    if (!begun) return;
    this.interrupted = true;
    this.nodelessMs = 0;
  }

  /** Ends what still runs with "abort" and the tokens so far. */
  abort(): void {
    if (this.outcome !== undefined) return;
    for (const sample of this.unfinished) sample.finish = { reason: 'abort' };
    this.end('complete');
  }

  fail(error: ContractError): void {
    this.end(error);
  }

  /** The client is gone: nobody reads the stream any more. */
  leave(): void {
    this.end('left');
    // A stream that already had its outcome, but not all of it written, has no reader now either.
    this.outcome = 'left';
    this.changed.notify();
  }

  /** The sample whose token is next to be written; undefined where none waits. */
  nextArrival(): Sample | undefined {
    if (this.taken === this.arrivals.length) return undefined;
    const index = this.arrivals[this.taken++] as number;
    if (this.taken === this.arrivals.length || this.taken > 1024) {
      this.arrivals = this.arrivals.slice(this.taken);
      this.taken = 0;
    }
    return this.samples[index];
  }

  /** A token of the sample was written: its node may make another. */
  wrote(sample: Sample): void {
    sample.sent++;
    if (!this.request.logprobsInComplete) {
      sample.logprobs[sample.sent - 1] = undefined;
      sample.tops[sample.sent - 1] = undefined;
    }
    this.extendCredit(sample);
  }

  private extendCredit(sample: Sample): void {
    const credit = sample.sent + CREDIT_TOKENS;
    if (credit - sample.credit < GRANT_TOKENS) return;
    sample.credit = credit;
    if (sample.finish === undefined) this.host?.grant(this, sample);
  }

  private end(outcome: 'complete' | 'left' | ContractError): void {
    if (this.outcome !== undefined) return;
    this.outcome = outcome;
    const { host } = this;
    this.host = undefined;
    host?.release(this);
    this.onEnd?.(this);
    this.changed.notify();
  }
}
