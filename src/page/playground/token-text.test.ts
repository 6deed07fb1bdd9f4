import { expect, it } from 'vitest';
import { tokenBytes } from '../../checkpoint/token-bytes.ts';
import { likelihoodStep, probability, tokenText } from './token-text.ts';

it('shows blanks, parts of characters, and tokens without a text', () => {
  const tokens = tokenBytes(
    {
      model: { vocab: { '▁a\n': 0, '<0xC3>': 1, '': 2 } },
      decoder: {
        type: 'Sequence',
        decoders: [{ type: 'Replace', pattern: { String: '▁' }, content: ' ' }, { type: 'ByteFallback' }],
      },
    },
    'test',
  );
  expect([0, 1, 2, 99].map((id) => tokenText(tokens, id))).toEqual(['␣a↵', '<C3>', '∅', '∅']);
});

it('grades likelihoods', () => {
  expect([0.95, 0.9, 0.6, 0.3, 0.1, 0.01].map((p) => likelihoodStep(Math.log(p) + 1e-9))).toEqual([0, 0, 1, 2, 3, 4]);
  expect(likelihoodStep(undefined)).toBeUndefined();
  expect([0, Math.log(0.5), Math.log(0.002), Math.log(0.00001)].map(probability)).toEqual([
    '100 %',
    '50.0 %',
    '0.2 %',
    '1.0e-3 %',
  ]);
});
