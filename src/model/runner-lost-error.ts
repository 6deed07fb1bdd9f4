/** The runner can do nothing any more: its device is lost, or it was destroyed. */
export class RunnerLostError extends Error {
  override readonly name = 'RunnerLostError';
}
