import type { NodeEvent, ReportRequest, Tokens } from '../contract/gen/node_relay_pb.ts';

/** Thrown where a report is not of the plain form. */
const OTHER = Symbol('not plain');

const VARINT = 0;
const LENGTH = 2;

/**
 * A report of tokens with nothing told of them, which nearly all reports are: a tenth of what the decoder that goes by a
 * schema takes, and the same message. Undefined for any other, and for whatever is not as an encoder writes it: those are
 * for the guard and the decoder. `bytes` bound what comes of it: a number for each.
 */
export function decodePlainReport(bytes: Uint8Array): ReportRequest | undefined {
  try {
    return new PlainReader(bytes).report();
  } catch (error) {
    if (error === OTHER) return undefined;
    throw error;
  }
}

class PlainReader {
  private at = 0;
  private readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }

  report(): ReportRequest {
    let sessionToken = '';
    let relayEpoch = 0n;
    let sessionEpoch = 0n;
    let seq = 0n;
    let lastCommandSeq = 0n;
    const events: NodeEvent[] = [];
    const { byteLength } = this.bytes;
    while (this.at < byteLength) {
      switch (this.uint32(byteLength)) {
        case tagOf(1, LENGTH):
          sessionToken = this.ascii(byteLength);
          break;
        case tagOf(2, VARINT):
          relayEpoch = this.uint64(byteLength);
          break;
        case tagOf(3, VARINT):
          sessionEpoch = this.uint64(byteLength);
          break;
        case tagOf(4, VARINT):
          seq = this.uint64(byteLength);
          break;
        case tagOf(5, VARINT):
          lastCommandSeq = this.uint64(byteLength);
          break;
        case tagOf(6, LENGTH):
          events.push(this.event(this.end(byteLength)));
          break;
        default:
          throw OTHER;
      }
    }
    const $typeName = 'shoal.relay.v1.ReportRequest';
    return { $typeName, sessionToken, relayEpoch, sessionEpoch, seq, lastCommandSeq, events };
  }

  private event(end: number): NodeEvent {
    let jobId = 0n;
    let index = 0;
    let value: Tokens | undefined;
    while (this.at < end) {
      switch (this.uint32(end)) {
        case tagOf(1, VARINT):
          jobId = this.uint64(end);
          break;
        case tagOf(2, VARINT):
          index = this.uint32(end);
          break;
        case tagOf(3, LENGTH):
          // Two would have to be merged.
          if (value) throw OTHER;
          value = this.tokens(this.end(end));
          break;
        default:
          throw OTHER;
      }
    }
    if (!value) throw OTHER;
    return { $typeName: 'shoal.relay.v1.NodeEvent', jobId, index, event: { case: 'tokens', value } };
  }

  private tokens(end: number): Tokens {
    let offset = 0;
    let cachedTokens = 0;
    const tokenIds: number[] = [];
    while (this.at < end) {
      switch (this.uint32(end)) {
        case tagOf(1, VARINT):
          offset = this.uint32(end);
          break;
        case tagOf(2, LENGTH):
          for (const to = this.end(end); this.at < to; ) tokenIds.push(this.uint32(to));
          break;
        case tagOf(3, VARINT):
          cachedTokens = this.uint32(end);
          break;
        default:
          throw OTHER;
      }
    }
    const lists = { logprobs: [], topLogprobs: [], idLogprobs: [], hiddenStates: [] };
    return { $typeName: 'shoal.relay.v1.Tokens', offset, tokenIds, cachedTokens, ...lists };
  }

  /** Where what a length spans ends. */
  private end(within: number): number {
    const length = this.uint32(within);
    const end = this.at + length;
    if (end > within) throw OTHER;
    return end;
  }

  private uint32(end: number): number {
    const first = this.bytes[this.at]!;
    if (first < 0x80 && this.at < end) {
      this.at++;
      return first;
    }
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      if (this.at >= end) throw OTHER;
      const byte = this.bytes[this.at++]!;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) {
        if (value > 0xffff_ffff) throw OTHER;
        return value;
      }
    }
    throw OTHER;
  }

  private uint64(end: number): bigint {
    let low = 0;
    for (let shift = 0; shift < 28; shift += 7) {
      if (this.at >= end) throw OTHER;
      const byte = this.bytes[this.at++]!;
      low |= (byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt(low);
    }
    // What is left has 36 bits at most: a number holds it.
    let high = 0;
    for (let shift = 0; shift < 42; shift += 7) {
      if (this.at >= end) throw OTHER;
      const byte = this.bytes[this.at++]!;
      high += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) {
        if (high >= 2 ** 36) throw OTHER;
        return (BigInt(high) << 28n) | BigInt(low);
      }
    }
    throw OTHER;
  }

  private ascii(end: number): string {
    const to = this.end(end);
    let text = '';
    for (; this.at < to; this.at++) {
      const byte = this.bytes[this.at]!;
      if (byte >= 0x80) throw OTHER;
      text += String.fromCharCode(byte);
    }
    return text;
  }
}

function tagOf(field: number, wireType: number): number {
  return field * 8 + wireType;
}
