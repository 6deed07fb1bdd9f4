import type { TopOfPosition } from './sample.ts';

/** What is told of one prompt position; position 0 has no logprob. */
export interface PromptPosition {
  readonly logprob: number | undefined;
  readonly top: TopOfPosition | undefined;
  /** In the order of the request's `logprobIds`. */
  readonly byId: Float32Array | undefined;
}

/** The logprobs of a request's prompt, from `start` on: gathered in order from one node, told once. */
export class PromptLogprobs {
  readonly start: number;
  /** The prompt's length. */
  readonly end: number;
  private gathered: PromptPosition[] = [];
  private told = false;

  constructor(start: number, end: number) {
    this.start = start;
    this.end = end;
  }

  /** The position that comes next. */
  get next(): number {
    return this.told ? this.end : this.start + this.gathered.length;
  }

  get whole(): boolean {
    return this.next === this.end;
  }

  add(positions: readonly PromptPosition[]): void {
    this.gathered.push(...positions);
  }

  /** Its node was lost: another tells a part that isn't whole anew, from the start. */
  restart(): void {
    if (!this.whole) this.gathered = [];
  }

  /** Gives them away, once. Undefined where they aren't whole, or were told. */
  take(): readonly PromptPosition[] | undefined {
    if (!this.whole || this.told) return undefined;
    this.told = true;
    const { gathered } = this;
    this.gathered = [];
    return gathered;
  }
}
