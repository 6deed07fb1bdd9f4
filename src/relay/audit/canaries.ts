import type { NormalisedRequest } from '../../contract/normalised-request.ts';
import type { MadeSample } from './judge.ts';
import { rescoring } from './rescoring.ts';

/** References that are kept. */
const MOST_KNOWN = 16;
/** Of a canary's output. */
const CANARY_TOKENS = 32;

/** A request of the relay's own, and the output that it should have. */
export interface Canary {
  readonly request: NormalisedRequest;
  /** Undefined where it is new: an audit finds out. */
  readonly expected: readonly number[] | undefined;
}

/**
 * Requests of the relay's own, of no client's prompt: texts that the model begins by itself. What passed its audit, two
 * nodes agree on, and it is the reference for nodes that come later.
 */
export class Canaries {
  private readonly known: MadeSample[] = [];
  private readonly bos: number;
  private readonly vocabulary: number;
  private readonly random: () => number;

  constructor(bos: number, vocabulary: number, random: () => number) {
    this.bos = bos;
    this.vocabulary = vocabulary;
    this.random = random;
  }

  add(made: MadeSample): void {
    if (this.known.length < MOST_KNOWN) this.known.push(made);
  }

  /** Of other weights they are no references. */
  forget(): void {
    this.known.length = 0;
  }

  /** A known one, or one more while there are few. */
  next(): Canary {
    const at = Math.floor(this.random() * MOST_KNOWN);
    const known = this.known[at];
    if (known) return { request: this.request(known.seed), expected: known.output };
    return { request: this.request(BigInt(Math.floor(this.random() * 2 ** 48))), expected: undefined };
  }

  private request(seed: bigint): NormalisedRequest {
    const { sampling, ...rest } = rescoring([this.bos], [], this.vocabulary);
    return {
      ...rest,
      sampling: { ...sampling, temperature: 1, seed, maxNewTokens: CANARY_TOKENS },
      ...{ stream: true, outputLogprobs: false, topLogprobs: 0, logprobStart: undefined },
    };
  }
}
