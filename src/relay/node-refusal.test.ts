import { Code } from '@connectrpc/connect';
import { expect, it } from 'vitest';
import { refusalOf } from './node-refusal.ts';

it.each([Code.InvalidArgument, Code.ResourceExhausted, Code.Unimplemented, Code.Internal, Code.Unavailable])(
  'a node may say %i',
  (code) => {
    expect(refusalOf(code, 'why')).toMatchObject({ code, message: 'why' });
  },
);

it.each([
  0,
  Code.Canceled,
  Code.DeadlineExceeded,
  Code.NotFound,
  Code.PermissionDenied,
  Code.FailedPrecondition,
  Code.Unauthenticated,
  -1,
  99,
])('%i, which is not a node’s to say, is INTERNAL', (code) => {
  expect(refusalOf(code, 'why')).toMatchObject({ code: Code.Internal, message: 'why' });
});

it('what a node writes comes printable and short', () => {
  expect(refusalOf(Code.Internal, `a\n\u0007b${'é'.repeat(3)}${'c'.repeat(999)}`).message).toMatch(/^a b c{296}$/);
  expect(refusalOf(Code.Internal, '\n').message).toBe('The node failed.');
});
