import type { Embedded } from '../contract/gen/node_relay_pb.ts';
import type { Job } from './job.ts';
import { Lie } from './lie.ts';
import type { Sample } from './sample.ts';

/** What a vector of the served model is like. */
export interface VectorForm {
  /** Numbers of it. */
  readonly size: number;
  /** Its length is 1. */
  readonly normalised: boolean;
}

/** A vector that is normalised may be so far from length 1, in its square. */
const NORM_TOLERANCE = 1e-3;

/** Checks a vector that a node tells of an input. Throws Lie. */
export function checkEmbedded({ request }: Job, sample: Sample, { values }: Embedded, form: VectorForm): Float32Array {
  if (!request.embedInputs) throw new Lie('a vector that nobody asked for');
  if (sample.finish) throw new Lie('a second vector of an input');
  if (values.byteLength !== 4 * form.size) {
    throw new Lie(`a vector of ${values.byteLength} bytes, where ${form.size} numbers were asked for`);
  }
  // A view of the message's own bytes might not be aligned.
  const vector = new Float32Array(values.slice().buffer);
  let squares = 0;
  for (const value of vector) {
    if (!Number.isFinite(value)) throw new Lie('a vector with a NaN or an infinity');
    squares += value * value;
  }
  // Only of zeros there is no direction: that is how it is normalised.
  if (form.normalised && squares !== 0 && Math.abs(squares - 1) > NORM_TOLERANCE) {
    throw new Lie('a vector that is not normalised');
  }
  return vector;
}
