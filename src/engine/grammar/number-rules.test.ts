import fc from 'fast-check';
import { expect, it } from 'vitest';
import { decimalExpression, integerExpression, type NumberBounds } from './number-rules.ts';

/** The expressions use what regular expressions have too. */
function asRegex(expression: string): RegExp {
  const text = expression.replace(/"([^"]*)"/g, (_, quoted: string) => `(?:${quoted.replace('.', '\\.')})`);
  return new RegExp(`^(?:${text.replaceAll(' ', '')})$`);
}

function within(value: number, { minimum, exclusiveMinimum, maximum, exclusiveMaximum }: NumberBounds): boolean {
  return (
    value >= (minimum ?? -Infinity) &&
    value > (exclusiveMinimum ?? -Infinity) &&
    value <= (maximum ?? Infinity) &&
    value < (exclusiveMaximum ?? Infinity)
  );
}

const bounds = (value: fc.Arbitrary<number>) => {
  const maybe = fc.option(value, { nil: undefined });
  return fc.record({ minimum: maybe, exclusiveMinimum: maybe, maximum: maybe, exclusiveMaximum: maybe });
};

it('takes exactly the integers within its bounds', () => {
  fc.assert(
    fc.property(
      bounds(fc.oneof(fc.integer({ min: -120, max: 1_200 }), fc.double({ min: -30, max: 30, noNaN: true }))),
      (of) => {
        const candidates = Array.from({ length: 1_500 }, (_, i) => i - 140);
        const wanted = candidates.filter((value) => within(value, of));
        let regex: RegExp | undefined;
        try {
          regex = asRegex(integerExpression(of));
        } catch {
          // No integer at all is refused.
        }
        expect(candidates.filter((value) => regex?.test(String(value)))).toEqual(wanted);
        expect(regex?.test('-0') || regex?.test('00') || regex?.test('')).toBeFalsy();
      },
    ),
    { numRuns: 150 },
  );
});

const decimal = fc.oneof(
  fc.integer({ min: -300, max: 300 }).map((n) => n / 100),
  fc.integer({ min: -40, max: 40 }),
  fc.double({ min: -1e-5, max: 1e-5, noNaN: true }),
  fc.constantFrom(1e21, -1e21, 5e-324, 0.1, 1 / 3),
);

it('takes no decimal outside its bounds, and those within that have few digits', () => {
  fc.assert(
    fc.property(
      bounds(decimal),
      fc.array(
        fc.tuple(
          fc.integer({ min: -5_000, max: 5_000 }),
          fc.integer({ min: 0, max: 3 }),
          fc.integer({ min: 0, max: 2 }),
        ),
        { minLength: 100, maxLength: 200 },
      ),
      (of, candidates) => {
        let regex: RegExp | undefined;
        try {
          regex = asRegex(decimalExpression(of));
        } catch {
          // No number at all is refused.
        }
        const near = Object.values(of).flatMap((bound) => (bound === undefined ? [] : [String(bound), `${bound}0`]));
        const texts = [...candidates.map(([n, places, zeros]) => (n / 10 ** places).toFixed(places + zeros)), ...near];
        for (const text of texts) {
          const value = Number(text);
          if (/^-?0+(\.0*)?$/.test(text) && text.startsWith('-')) continue;
          if (!/^-?(0|[1-9]\d*)(\.\d+)?$/.test(text)) continue;
          const takes = regex?.test(text) ?? false;
          if (takes) expect(within(value, of), `${text} in ${regex}`).toBe(true);
          else if (/^-?\d+(\.\d{0,3}[1-9])?$/.test(text)) expect(within(value, of), `${text} in ${regex}`).toBe(false);
        }
      },
    ),
    { numRuns: 100 },
  );
});

it('refuses bounds with nothing between', () => {
  const none = { exclusiveMinimum: undefined, exclusiveMaximum: undefined };
  expect(() => integerExpression({ ...none, minimum: 1.2, maximum: 1.8 })).toThrow('no number is within its bounds');
  expect(() => decimalExpression({ ...none, minimum: 2, maximum: 1 })).toThrow('no number is within its bounds');
});
