import type { Message, UnknownField } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';

/**
 * Gives a message a `repeated float` field as bytes already encoded, in place of setting it: the encoder takes a
 * microsecond a float, which a whole vocabulary's logprobs make a tenth of a second. The bytes on the wire are the same;
 * a message that is written as JSON must have the field set instead. `no` is the field's number.
 */
export function packFloats(message: Message, no: number, values: Float32Array): void {
  if (values.length === 0) return;
  message.$unknown = [...(message.$unknown ?? []), packedField(no, values)];
}

function packedField(no: number, values: Float32Array): UnknownField {
  // The wire is little-endian, as is every platform with WebGPU or Node.
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return { no, wireType: WireType.LengthDelimited, data: new BinaryWriter().bytes(bytes).finish() };
}
