/** The gateway rejects messages over 4 MiB; we stay under this many bytes. */
export const MAX_RESPONSE_BYTES = 3.5 * 1024 * 1024;

/** Everything in a message but its tokens and what is told of each: a request id and a stop string of 12 KiB each. */
const MESSAGE_BYTES = 32 * 1024;

/** Tag and length of a nested field: one or two bytes of tag, at most five of length. */
const HEADER = 7;

/** What is told of each position, as far as it decides on the size of a response. */
export interface ToldPerPosition {
  readonly vocabSize: number;
  readonly logprobs: boolean;
  /** Best logprobs of each position. */
  readonly top: number;
  /** Ids of each position whose logprobs are told: in a list of their own, and after the best. */
  readonly ids: number;
  /** Values of a hidden state; 0 where none is told. */
  readonly hidden: number;
}

/** Bytes of a varint up to `max`. */
function varintBytes(max: number): number {
  let bytes = 1;
  for (let rest = Math.floor(max / 128); rest > 0; rest = Math.floor(rest / 128)) bytes++;
  return bytes;
}

/** Bytes of a list of logprobs with their ids. */
function listBytes(entries: number, id: number): number {
  return entries > 0 ? 3 * HEADER + entries * (4 + id) : 0;
}

/** Upper bound of the bytes that one output position takes in a message. */
export function outputBytes({ vocabSize, logprobs, top, ids, hidden }: ToldPerPosition): number {
  const id = varintBytes(vocabSize);
  // Its absolute position and layer, as varints.
  const state = hidden > 0 ? 2 * HEADER + 12 + 4 * hidden : 0;
  if (!logprobs) return id + state;
  return id + 4 + id + listBytes(top + ids, id) + listBytes(ids, id) + state;
}

/** Upper bound of the bytes that one prompt position takes in a message. */
export function inputBytes({ vocabSize, top, ids }: ToldPerPosition): number {
  const id = varintBytes(vocabSize);
  // Each logprob is a message of its own, and an empty list takes its header too.
  return HEADER + 5 + id + (top + ids > 0 ? HEADER : 0) + listBytes(top + ids, id);
}

/** Upper bound of the bytes of a message with so many output and prompt positions. */
export function messageBytes(outputs: number, inputs: number, told: ToldPerPosition): number {
  // With no output there is still the last prompt position's hidden state.
  return MESSAGE_BYTES + Math.max(1, outputs) * outputBytes(told) + inputs * inputBytes(told);
}
