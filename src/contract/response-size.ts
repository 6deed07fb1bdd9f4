/** The gateway rejects messages over 4 MiB; we stay under this many bytes. */
export const MAX_RESPONSE_BYTES = 3.5 * 1024 * 1024;

/** Bytes of a varint up to `max`. */
function varintBytes(max: number): number {
  let bytes = 1;
  for (let rest = Math.floor(max / 128); rest > 0; rest = Math.floor(rest / 128)) bytes++;
  return bytes;
}

/**
 * Upper bound of the bytes of a GenerateComplete: `tokens` output ids with, where `logprobs`, their logprob and the
 * `top` best ones each.
 */
export function completeBytes(tokens: number, logprobs: boolean, top: number, vocabSize: number): number {
  const id = varintBytes(vocabSize);
  // Tag and length of a nested field: one or two bytes of tag, at most five of length.
  const header = 7;
  let perToken = id;
  if (logprobs) perToken += 4 + id;
  if (top > 0) perToken += 3 * header + top * (4 + id);
  return 1024 + tokens * perToken;
}
