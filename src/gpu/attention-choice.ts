import type { AttentionShape } from './attention.ts';

/** threads: one a row, or a split of a row, and head. tiles: workgroups that share keys and values in their memory. */
export type AttentionForm = 'threads' | 'tiles';

export const ATTENTION_FORMS: readonly AttentionForm[] = ['threads', 'tiles'];

/** What attention is made of. All forms give the same bits, so any two go together. */
export interface AttentionChoice {
  /** Of rows whose splits are walked one after the other: prefill. */
  readonly whole: AttentionForm;
  /** Of rows whose splits are spread: decode. */
  readonly parts: AttentionForm;
}

export const DEFAULT_ATTENTION: AttentionChoice = { whole: 'threads', parts: 'threads' };

/** Threads of a workgroup of tiles. */
export const TILE_THREADS = 64;

/** What every adapter has. */
const WORKGROUP_BYTES = 16_384;

/** Rows and heads that a workgroup of tiles takes at most. */
const LINES = [16, 8, 4] as const;

/**
 * Rows and heads of a workgroup of tiles; undefined: heads are too large for a workgroup's memory. See
 * shaders/attention-tiles.wgsl.
 */
export function tileLines({ heads, kvHeads, headSize }: AttentionShape, of: keyof AttentionChoice): number | undefined {
  const bytes = (lines: number) => 16 * (16 + 4 * headSize) + lines * (4 * headSize + 264);
  const fitting = LINES.filter((lines) => bytes(lines) <= WORKGROUP_BYTES);
  // A part has the heads of one KV head, and no more to do.
  return of === 'whole' ? fitting[0] : (fitting.findLast((lines) => lines >= heads / kvHeads) ?? fitting[0]);
}

/** What attention of this shape can be made of, the default first. */
export function attentionChoices(shape: AttentionShape): readonly AttentionChoice[] {
  if (tileLines(shape, 'whole') === undefined) return [DEFAULT_ATTENTION];
  return ATTENTION_FORMS.flatMap((whole) => ATTENTION_FORMS.map((parts) => ({ whole, parts })));
}

/** Its name: threads-tiles is a whole of threads and parts of tiles. */
export function attentionName({ whole, parts }: AttentionChoice): string {
  return `${whole}-${parts}`;
}
