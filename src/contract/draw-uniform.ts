import { threefry } from './threefry.ts';

/** Tokens of a row's head where top k doesn't say: draws look at these first, best first. */
export const HEAD = 20;
/** The most that top k makes of it. */
export const HEAD_MOST = 64;
/** Draws over a whole filtered row, of which one has to stay; what is drawn best first after them has the round after. */
export const ROUNDS = 4;

/**
 * The uniform of one draw, times 2²⁴: an integer in [0, 2²⁴). It hangs on the request's seed, the output token's position
 * and the sample's index alone, so that whoever knows these can draw again. Round 0 is the head's draw; docs/kernels.md,
 * "Sampling".
 */
export function drawInteger(seed: bigint, outputPosition: number, sampleIndex: number, round = 0): number {
  const key = [Number(seed & 0xffffffffn), Number((seed >> 32n) & 0xffffffffn)] as const;
  return threefry(key, [outputPosition, sampleIndex + (round >> 1) * 2 ** 24])[round & 1]! >>> 8;
}
