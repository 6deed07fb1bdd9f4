import type { TokenBytes } from '../checkpoint/token-bytes.ts';
import type { Runner } from '../model/runner.ts';
import type { EngineEvent } from './event.ts';
import type { Grammars } from './grammars.ts';
import type { SchedulerLimits } from './scheduler.ts';
import type { Speculating } from './speculation.ts';
import type { StepThrottle } from './step-throttle.ts';

export interface EngineOptions {
  readonly runner: Runner;
  readonly tokens: TokenBytes;
  readonly limits: EngineLimits;
  /** Without them no constraint is served. */
  readonly grammars?: Grammars;
  /** Whether sequences draft, and by what: 'auto' does by n-grams where that wins. Default: 'off'. */
  readonly speculation?: 'auto' | 'off' | Speculating;
  /** How long a step waits for masks, in milliseconds; the default suits everyone but tests. */
  readonly maskPatienceMs?: number;
  /** Called after each step with what it brought, and at once for what ends outside a step. */
  readonly onEvents: (events: readonly EngineEvent[]) => void;
  /** It can't run any more, as after a lost device: everything was failed, and everything will be. */
  readonly onBroken?: (reason: string) => void;
  /** Without it steps follow each other at once. */
  readonly throttle?: StepThrottle;
  /** What each step took, for whoever measures. */
  readonly onStep?: (step: StepTimes) => void;
  /** Milliseconds of a monotonic clock. */
  readonly now: () => number;
}

export interface EngineLimits extends SchedulerLimits {
  /** Rows of one prefill chunk when nothing else runs. */
  readonly prefillRows: number;
  /** Steps given to the GPU before the first of them is done: 2 plans and encodes one while another runs. */
  readonly stepsInFlight: number;
}

/** Milliseconds of one step. */
export interface StepTimes {
  /** The host's: planning, encoding, taking the results. */
  readonly hostMs: number;
  /** From the end of the step before, or its own submit, to its end. */
  readonly ms: number;
  readonly decodeRows: number;
  readonly prefillRows: number;
  /** Guesses of drafts, on top of the decode rows. */
  readonly draftRows: number;
  /** Tokens that its decode rows brought. */
  readonly tokens: number;
  /** Decode steps for one readback. */
  readonly steps: number;
}
