import type { PlainDecoder } from '../../src/model/plain-decoder.ts';
import type { Roofline } from './report.ts';

/** Rows of a step, or of several. */
export interface Rows {
  readonly rows: number;
  readonly logitsRows: number;
  /** Keys that the rows attend to, all together. */
  readonly keys: number;
  /** Steps that they take: each reads the weights once. */
  readonly steps: number;
}

/** What a model's steps cost at least, on an adapter that does nothing but this at full speed. */
export class Work {
  readonly #config: PlainDecoder;
  readonly #weightBytes: number;
  readonly #roofline: Roofline;

  /** `weightBytes`: of one weight, on average. */
  constructor(config: PlainDecoder, weightBytes: number, roofline: Roofline) {
    this.#config = config;
    this.#weightBytes = weightBytes;
    this.#roofline = roofline;
  }

  /** Weights of all layers' matrices; the head's come beside them. */
  get layerWeights(): number {
    const { layers, hiddenSize, intermediateSize, heads, kvHeads, headSize } = this.#config;
    return layers * hiddenSize * (2 * (heads + kvHeads) * headSize + 3 * intermediateSize);
  }

  flops({ rows, logitsRows, keys }: Rows): number {
    const { layers, hiddenSize, vocabSize, heads, headSize } = this.#config;
    return 2 * (this.layerWeights * rows + vocabSize * hiddenSize * logitsRows) + 4 * layers * heads * headSize * keys;
  }

  bytes({ logitsRows, keys, steps }: Rows): number {
    const { layers, hiddenSize, vocabSize, kvHeads, headSize } = this.#config;
    const head = logitsRows > 0 ? vocabSize * hiddenSize : 0;
    return steps * this.#weightBytes * (this.layerWeights + head) + 8 * layers * kvHeads * headSize * keys;
  }

  /** What these rows take at least, in milliseconds: the greater of the times for bytes and for flops. */
  leastMs(rows: Rows): number {
    const { copyGBs, gflops } = this.#roofline;
    return Math.max(this.bytes(rows) / copyGBs, this.flops(rows) / gflops) / 1e6;
  }

  /** Share of the roofline that `ms` for these rows is. */
  share(rows: Rows, ms: number): number {
    return this.leastMs(rows) / ms;
  }
}

/** Keys that rows at positions [from, to) attend to. */
export function causalKeys(from: number, to: number): number {
  return ((to - from) * (from + 1 + to)) / 2;
}
