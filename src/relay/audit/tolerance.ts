/**
 * How far two honest nodes' logprobs of one token may lie apart. docs/security.md, "Audits", tells what was measured;
 * tolerance.gpu.test.ts measures it.
 */
export const AUDIT_TOLERANCE = 0.1;
