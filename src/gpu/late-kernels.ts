import { ShaderError } from './pipeline-cache.ts';

/** Kernels that others can stand in for: they are compiled once those are there that nothing replaces. */
export class LateKernels {
  #waiting: (() => Promise<void>)[] = [];
  #ended = false;

  /** `compile` puts its kernel to use; it is called once. */
  add(compile: () => Promise<void>): void {
    this.#waiting.push(compile);
  }

  /**
   * Compiles all that wait, one after the other: what runs meanwhile has a core to itself. Resolves with those that the
   * device refused: others go on standing in for them.
   */
  async compileAll(): Promise<readonly ShaderError[]> {
    const compiles = this.#waiting;
    this.#waiting = [];
    // A kernel of every layer is one.
    const refused = new Map<string, ShaderError>();
    for (const compile of compiles) {
      if (this.#ended) break;
      try {
        await compile();
      } catch (error) {
        if (!(error instanceof ShaderError)) throw error;
        refused.set(error.kernel, error);
      }
    }
    return [...refused.values()];
  }

  /** No kernel is begun any more. */
  end(): void {
    this.#ended = true;
    this.#waiting = [];
  }
}
