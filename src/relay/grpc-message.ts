/**
 * A status message as gRPC's HTTP/2 protocol wants it: UTF-8, percent-encoded outside printable ASCII. Connect encodes
 * commas and brackets too, which clients that decode by the letter, such as grpc-js, show as they are.
 */
export function encodeGrpcMessage(message: string): string {
  let encoded = '';
  for (const byte of new TextEncoder().encode(message)) {
    const plain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25;
    encoded += plain ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return encoded;
}

/** The same message in gRPC's encoding, from Connect's. */
export function reencodeGrpcMessage(encoded: string): string {
  try {
    return encodeGrpcMessage(decodeURIComponent(encoded));
  } catch {
    return encoded;
  }
}
