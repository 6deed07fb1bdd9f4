/** Kernels that others can stand in for: they are compiled once those are there that nothing replaces. */
export class LateKernels {
  #waiting: (() => Promise<void>)[] = [];
  #ended = false;

  /** `compile` puts its kernel to use; it is called once. */
  add(compile: () => Promise<void>): void {
    this.#waiting.push(compile);
  }

  /** Compiles all that wait, one after the other: what runs meanwhile has a core to itself. Rejects with ShaderError. */
  async compileAll(): Promise<void> {
    const compiles = this.#waiting;
    this.#waiting = [];
    for (const compile of compiles) {
      if (this.#ended) return;
      await compile();
    }
  }

  /** No kernel is begun any more. */
  end(): void {
    this.#ended = true;
    this.#waiting = [];
  }
}
