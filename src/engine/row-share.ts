import type { RunnerLimits } from '../model/runner.ts';

/** What rows of a step take of the runner's limits on what is told. */
export interface RowShare {
  readonly logits: number;
  readonly top: number;
  readonly ids: number;
  readonly hidden: number;
}

export const NO_SHARE: RowShare = { logits: 0, top: 0, ids: 0, hidden: 0 };

/** All that one step has. */
export function wholeStep({ maxLogitsRows, maxTop, maxHiddenRows }: RunnerLimits): RowShare {
  return { logits: maxLogitsRows, top: maxTop, ids: maxTop, hidden: maxHiddenRows };
}

export function plus(a: RowShare, b: RowShare): RowShare {
  return { logits: a.logits + b.logits, top: a.top + b.top, ids: a.ids + b.ids, hidden: a.hidden + b.hidden };
}

export function minus(a: RowShare, b: RowShare): RowShare {
  return { logits: a.logits - b.logits, top: a.top - b.top, ids: a.ids - b.ids, hidden: a.hidden - b.hidden };
}

/** The greater of each. */
export function both(a: RowShare, b: RowShare): RowShare {
  return {
    logits: Math.max(a.logits, b.logits),
    top: Math.max(a.top, b.top),
    ids: Math.max(a.ids, b.ids),
    hidden: Math.max(a.hidden, b.hidden),
  };
}

export function fits(share: RowShare, into: RowShare): boolean {
  return share.logits <= into.logits && share.top <= into.top && share.ids <= into.ids && share.hidden <= into.hidden;
}

/** Whether it takes of what may not be enough for every row of a step: more than its logits. */
export function isScarce({ top, ids, hidden }: RowShare): boolean {
  return top + ids + hidden > 0;
}
