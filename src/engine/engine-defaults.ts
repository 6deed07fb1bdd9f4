/** Rows of one step: 64 decode rows beside a prefill chunk. */
export const MAX_ROWS = 256;

/** What an engine takes on unless its page says otherwise. */
export const ENGINE_DEFAULTS = {
  maxWaiting: 256,
  prefillRows: 192,
  stepsInFlight: 2,
  policy: 'lpm',
  prefixCache: true,
} as const;

/** Ids of an embedder's step of several sequences, and how many these may be. */
export const EMBED_ROWS = 512;
export const EMBED_SEQUENCES = 64;
