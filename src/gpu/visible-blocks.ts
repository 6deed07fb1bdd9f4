/** Tokens of a KV block; shaders/step.wgsl has the same number. */
export const BLOCK_TOKENS = 16;

/** The first KV block that the row at `position` sees through a window of so many keys; undefined: it sees all. */
export function firstVisibleBlock(window: number | undefined, position: number): number {
  return window === undefined ? 0 : Math.floor(Math.max(0, position + 1 - window) / BLOCK_TOKENS);
}
