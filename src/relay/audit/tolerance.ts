/**
 * How far two honest nodes' logprobs of one token may lie apart: twice the most that was measured between a model's exact
 * products and those of 8-bit dot products, the coarsest that a node may have (src/model/tolerance.gpu.test.ts).
 */
export const AUDIT_TOLERANCE = 0.6;
