/** A node said something that can't be true. Its session ends; the message says what, without ids or texts. */
export class Lie extends Error {
  override readonly name = 'Lie';
}
