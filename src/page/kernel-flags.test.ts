import { expect, test } from 'vitest';
import { kernelFlags, withoutReset } from './kernel-flags.ts';

test('an address says how kernels are chosen, or nothing', () => {
  expect(kernelFlags('')).toEqual({ tune: 'auto', precision: 'exact', kernel: undefined, speculation: 'auto' });
  expect(kernelFlags('?precision=fast&tune=off&kernel=plain-8x4-64x1x1-4&other=1&speculation=off')).toEqual({
    tune: 'off',
    precision: 'fast',
    kernel: 'plain-8x4-64x1x1-4',
    speculation: 'off',
  });
});

test.each([
  ['?tune=never', 'tune is "never" in the address, not auto or off or reset'],
  ['?tune=', 'tune is "" in the address, not auto or off or reset'],
  ['?speculation=on', 'speculation is "on" in the address, not auto or off'],
  ['?precision=f16', 'precision is "f16" in the address, not exact or fast'],
])('%s is refused', (search, message) => {
  expect(() => kernelFlags(search)).toThrow(message);
});

test('a reset counts once', () => {
  expect(withoutReset('?tune=reset')).toBe('');
  expect(withoutReset('?kernel=plain&tune=reset')).toBe('?kernel=plain');
  expect(withoutReset('?tune=off')).toBe('?tune=off');
});
