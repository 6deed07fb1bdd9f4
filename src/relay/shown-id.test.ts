import { expect, test } from 'vitest';
import { shownId } from './shown-id.ts';

test.each([
  ['', ''],
  ['short', 'short'],
  ['é'.repeat(250), 'é'.repeat(200)],
  ['x'.repeat(200), 'x'.repeat(200)],
  [`${'x'.repeat(199)}😀`, 'x'.repeat(199)],
  [`${'x'.repeat(198)}😀x`, `${'x'.repeat(198)}😀`],
])('%s is shown by its first characters, none of them cut', (id, shown) => {
  expect(shownId(id)).toBe(shown);
});
