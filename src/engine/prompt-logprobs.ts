/** Which positions of a prompt have their logprobs told, and how far the steps planned so far have got. */
export class PromptLogprobs {
  readonly #end: number;
  /** The next position to tell by a row of its own. */
  #next: number;
  /** Position 0 is to be told, without a logprob: nothing comes before it. */
  #firstPending: boolean;

  /** Positions `start` … `end` − 1. */
  constructor(start: number, end: number) {
    this.#end = end;
    this.#next = Math.max(1, start);
    this.#firstPending = start === 0;
  }

  /** The first row that has to be computed for what is left; undefined: nothing is. */
  get firstRow(): number | undefined {
    return this.#next < this.#end ? this.#next - 1 : undefined;
  }

  /** Whether row `row` of the sequence tells the logprob of the position after it. */
  tells(row: number): boolean {
    return row + 1 >= this.#next && row + 1 < this.#end;
  }

  /** Row `row` is in a step; it tells once, also where it is computed again. */
  planned(row: number): void {
    this.#next = row + 2;
  }

  /** True the first time, where position 0 is to be told. */
  takeFirst(): boolean {
    const pending = this.#firstPending;
    this.#firstPending = false;
    return pending;
  }
}
