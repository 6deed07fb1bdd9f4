import { ShaderError } from './pipeline-cache.ts';

/** How long a kernel waits for other work at most, and how often it looks. */
const HOLD_MS = 5_000;
const LOOK_MS = 25;

/** Kernels that are compiled once those are there without which nothing runs. */
export class LateKernels {
  #awaited: (() => Promise<void>)[] = [];
  #soon: (() => Promise<void>)[] = [];
  #waiting: (() => Promise<void>)[] = [];
  #ended = false;

  /** Nothing stands in for these: some work waits until `compile` has put them to use. */
  addAwaited(compile: () => Promise<void>): void {
    this.#awaited.push(compile);
  }

  /** `compile` puts a kernel to use that others stand in for, some at a price: those come `soon`; it is called once. */
  add(compile: () => Promise<void>, when: 'soon' | 'later' = 'later'): void {
    (when === 'soon' ? this.#soon : this.#waiting).push(compile);
  }

  /**
   * Compiles all that wait, one after the other: what runs meanwhile has a core to itself. What is awaited comes first.
   * What need not come soon waits while `busy`, for HOLD_MS at most each. Resolves with those that the device refused and
   * others go on standing in for; rejects with ShaderError where it refused others.
   */
  async compileAll(busy: () => boolean = () => false): Promise<readonly ShaderError[]> {
    const awaited = this.#awaited;
    const compiles = [...this.#soon, ...this.#waiting];
    const soon = this.#soon.length;
    this.#awaited = [];
    this.#soon = [];
    this.#waiting = [];
    for (const compile of awaited) if (!this.#ended) await compile();
    // A kernel of every layer is one.
    const refused = new Map<string, ShaderError>();
    for (const [i, compile] of compiles.entries()) {
      for (let held = 0; i >= soon && held < HOLD_MS && !this.#ended && busy(); held += LOOK_MS) await pause(LOOK_MS);
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
    this.#awaited = [];
    this.#soon = [];
    this.#waiting = [];
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
