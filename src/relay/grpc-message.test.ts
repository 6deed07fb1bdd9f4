import fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodeGrpcMessage, reencodeGrpcMessage } from './grpc-message.ts';

test('printable ASCII stays as it is, but for the percent sign', () => {
  expect(encodeGrpcMessage('top_p must be in (0, 1], got 1.5.')).toBe('top_p must be in (0, 1], got 1.5.');
  expect(encodeGrpcMessage('100 %\n×')).toBe('100 %25%0A%C3%97');
});

test('any text comes back, also by way of Connect’s encoding', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => {
      expect(decodeURIComponent(encodeGrpcMessage(text))).toBe(text);
      expect(reencodeGrpcMessage(encodeURIComponent(text))).toBe(encodeGrpcMessage(text));
    }),
  );
});
