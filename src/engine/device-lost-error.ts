/** The device was lost while a model was put onto it, by no kernel that was being tried: another device may do. */
export class DeviceLostError extends Error {
  override readonly name = 'DeviceLostError';
}
