/** A seeded generator of numbers for tests (mulberry32). */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** In [0, 1). */
  uniform(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  /** An integer in [from, to]. */
  integer(from: number, to: number): number {
    return from + Math.floor(this.uniform() * (to - from + 1));
  }

  /** Standard normal. */
  normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.uniform())) * Math.cos(2 * Math.PI * this.uniform());
  }

  /** `count` normal numbers times `scale`. */
  normals(count: number, scale = 1): Float32Array<ArrayBuffer> {
    return Float32Array.from({ length: count }, () => this.normal() * scale);
  }

  /** The numbers 0 … count − 1 in random order. */
  permutation(count: number): number[] {
    const values = Array.from({ length: count }, (_, i) => i);
    for (let i = count - 1; i > 0; i--) {
      const j = this.integer(0, i);
      [values[i], values[j]] = [values[j]!, values[i]!];
    }
    return values;
  }
}
