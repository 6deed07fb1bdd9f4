/** The relay doesn't answer, or not with what was asked for: another try may go well. */
export class RelayUnreachableError extends Error {
  override readonly name = 'RelayUnreachableError';
}
