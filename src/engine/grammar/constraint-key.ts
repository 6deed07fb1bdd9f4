import type { Constraint } from '../request.ts';

const keys = new WeakMap<Constraint, string>();

/** What equal constraints have in common. The samples of a request share theirs, which may be a megabyte. */
export function constraintKey(constraint: Constraint): string {
  let key = keys.get(constraint);
  if (key === undefined) {
    key = `${constraint.kind}\0${constraint.text}`;
    keys.set(constraint, key);
  }
  return key;
}
