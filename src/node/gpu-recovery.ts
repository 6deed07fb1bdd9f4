import { DeviceLostError } from '../engine/device-lost-error.ts';
import type { NodeMessage } from './messages.ts';
import { pause } from './pause.ts';

/** Lost devices after which the node starts again by and by only, and the time in which they count. */
const MOST_LOSSES = 8;
const LOSSES_WITHIN_MS = 600_000;
/** Between two looks for an adapter that is away, in the time in which it may come back without a reload. */
const LOOK_MS = 500;
const PATIENCE_MS = 3_000;
/** Between two starts, or looks, where what helps at once has not. */
const LATER_MS = 60_000;

/** What a node does about lost devices, and about adapters that are away: it starts again, sooner or later. */
export class GpuRecovery {
  /** There was a device: an adapter that is away now may come back. */
  hadDevice = false;
  readonly #losses: number[] = [];
  #awaySince: number | undefined;
  readonly #post: (message: NodeMessage) => void;
  readonly #signal: AbortSignal;

  /** Its waits reject when `signal` aborts. */
  constructor(post: (message: NodeMessage) => void, signal: AbortSignal) {
    this.#post = post;
    this.#signal = signal;
  }

  /** A device is there. */
  found(): void {
    this.hadDevice = true;
    this.#awaySince = undefined;
  }

  /** Resolves, with what to tell of it, when the node may start again: at once, unless devices are lost one after the other. */
  async lost(reason: string): Promise<string> {
    this.found();
    const now = performance.now();
    this.#losses.push(now);
    const recent = this.#losses.filter((at) => at > now - LOSSES_WITHIN_MS).length;
    if (recent > MOST_LOSSES) {
      this.#loading(`The GPU was lost ${recent} times in ten minutes (${reason}); trying again in a minute`, undefined);
      await pause(LATER_MS, this.#signal);
    }
    return `The GPU was lost (${reason}). The node starts again on a new device`;
  }

  /** Whether `error` is of an adapter that may come back. */
  mends(error: unknown): error is Error {
    return this.hadDevice && isNoAdapter(error);
  }

  /**
   * Resolves when the adapter may be asked for again. Chromium takes the GPU away from pages under which its process has
   * crashed, for minutes or until they are loaded anew: after three seconds the page is told so.
   */
  async adapterAway({ message }: Error): Promise<void> {
    const now = performance.now();
    this.#awaySince ??= now;
    const patient = now - this.#awaySince < PATIENCE_MS;
    this.#loading(`${message}; ${patient ? 'trying again' : 'trying again each minute'}`, 'no-adapter');
    if (!patient) this.#post({ type: 'adapter-away' });
    await pause(patient ? LOOK_MS : LATER_MS, this.#signal);
  }

  #loading(detail: string, problem: 'no-adapter' | undefined): void {
    this.#post({ type: 'state', state: 'loading', detail, problem });
  }
}

/** Why a device was lost that a model was put onto; throws what tells of no loss. */
export function lossOf(error: unknown): string {
  if (error instanceof DeviceLostError) return error.message;
  throw error;
}

/** Named, not imported: only the engine knows the GPU. */
export function isNoAdapter(error: unknown): boolean {
  return error instanceof Error && error.name === 'DeviceUnavailableError';
}
