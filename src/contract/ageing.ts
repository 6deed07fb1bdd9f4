/** Waiting for so long is worth one step of priority, at the relay and at its nodes. */
export const AGEING_MS = 5_000;

/** Whoever was overtaken so often is next, whatever the policy. */
export const MOST_OVERTAKEN = 32;
