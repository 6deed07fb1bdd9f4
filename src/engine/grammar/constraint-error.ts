/** A constraint that is refused before the library sees it; its message says where, and quotes no more than names. */
export class ConstraintError extends Error {
  override readonly name = 'ConstraintError';
}
