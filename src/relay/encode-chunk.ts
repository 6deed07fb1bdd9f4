import type { FrameBatch } from './frame-batch.ts';
import type { Job, ReadyChunk } from './job.ts';

/** Tags of GenerateResponse and GenerateStreamChunk (sglang_scheduler.proto): field number × 8 + wire type. */
const REQUEST_ID = (1 << 3) | 2;
const CHUNK = (2 << 3) | 2;
const TOKEN_IDS = (1 << 3) | 2;
const PROMPT_TOKENS = 2 << 3;
const COMPLETION_TOKENS = 3 << 3;
const CACHED_TOKENS = 4 << 3;
const INDEX = 8 << 3;

/**
 * Encodes the chunks of one job that hold ids and counts and nothing else, which are nearly all chunks there are: a
 * twentieth of what the encoder that goes by a schema takes, and the same bytes.
 */
export class ChunkEncoder {
  private readonly job: Job;
  private readonly requestId: Buffer;

  constructor(job: Job) {
    this.job = job;
    this.requestId = Buffer.from(job.request.requestId);
  }

  /** Whether it can encode the job's chunks. */
  static takes({ request, promptLogprobs }: Job): boolean {
    return !request.outputLogprobs && !request.hiddenStates && promptLogprobs === undefined;
  }

  /** Puts the chunk's message into the batch. */
  encode({ sample, from, to }: ReadyChunk, batch: FrameBatch): void {
    const { ids, index, cachedTokens = 0 } = sample;
    const { requestId } = this;
    const promptTokens = this.job.request.inputIds.length;
    let idBytes = 0;
    for (let i = from; i < to; i++) idBytes += varintBytes(ids[i]!);
    const chunkBytes =
      delimitedBytes(idBytes) +
      numberBytes(promptTokens) +
      numberBytes(to) +
      numberBytes(cachedTokens) +
      numberBytes(index);
    const idField = requestId.byteLength > 0 ? delimitedBytes(requestId.byteLength) : 0;
    let at = batch.open(idField + delimitedBytes(chunkBytes));
    const { target } = batch;
    if (idField > 0) {
      at = putTagged(target, at, REQUEST_ID, requestId.byteLength);
      target.set(requestId, at);
      at += requestId.byteLength;
    }
    at = putTagged(target, at, CHUNK, chunkBytes);
    at = putTagged(target, at, TOKEN_IDS, idBytes);
    for (let i = from; i < to; i++) at = putVarint(target, at, ids[i]!);
    at = putNumber(target, at, PROMPT_TOKENS, promptTokens);
    at = putNumber(target, at, COMPLETION_TOKENS, to);
    at = putNumber(target, at, CACHED_TOKENS, cachedTokens);
    putNumber(target, at, INDEX, index);
  }
}

/** Of a uint32, or an int32 that is not negative. */
function varintBytes(value: number): number {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x20_0000 ? 3 : value < 0x1000_0000 ? 4 : 5;
}

/** Of a field of so many bytes, with its tag and length. */
function delimitedBytes(length: number): number {
  return 1 + varintBytes(length) + length;
}

/** Of a field that proto3 leaves out where it is 0. */
function numberBytes(value: number): number {
  return value === 0 ? 0 : 1 + varintBytes(value);
}

function putVarint(target: Uint8Array, at: number, value: number): number {
  let rest = value;
  let to = at;
  for (; rest >= 0x80; rest >>>= 7) target[to++] = (rest & 0x7f) | 0x80;
  target[to++] = rest;
  return to;
}

function putTagged(target: Uint8Array, at: number, tag: number, value: number): number {
  target[at] = tag;
  return putVarint(target, at + 1, value);
}

function putNumber(target: Uint8Array, at: number, tag: number, value: number): number {
  return value === 0 ? at : putTagged(target, at, tag, value);
}
