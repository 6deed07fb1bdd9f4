/** A model that can't be served as it is: the message is for whoever started the relay. */
export class ModelError extends Error {
  override readonly name = 'ModelError';
}
