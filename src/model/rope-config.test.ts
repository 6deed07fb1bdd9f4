import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { longropeAttentionFactor, type RopeScaling, ropeConfig, yarnAttentionFactor } from './rope-config.ts';

const rotated = fc.integer({ min: 1, max: 64 }).map((pairs) => 2 * pairs);
const theta = fc.double({ min: 10, max: 1e7, noNaN: true });
const factor = fc.double({ min: 1, max: 64, noNaN: true });
const context = fc.integer({ min: 16, max: 131_072 });

/** The formula of RoFormer in float64. */
const plain = (size: number, base: number) =>
  Array.from({ length: size / 2 }, (_, pair) => base ** ((-2 * pair) / size));

const close = (actual: ArrayLike<number>, expected: readonly number[], relative = 1e-5) => {
  expect(actual.length).toBe(expected.length);
  for (const [i, value] of expected.entries()) expect(Math.abs(actual[i]! / value - 1)).toBeLessThan(relative);
};

test('unscaled, linear and all factors of one agree with the formula', () => {
  fc.assert(
    fc.property(rotated, theta, factor, (size, base, by) => {
      const expected = plain(size, base);
      const { frequencies, factor: none, ...rest } = ropeConfig(size, base, { kind: 'default' });
      close(frequencies, expected);
      expect([none, rest]).toEqual([1, { rotated: size }]);
      expect(frequencies[0]).toBe(1);
      const linear = ropeConfig(size, base, { kind: 'linear', factor: by });
      close(
        linear.frequencies,
        expected.map((frequency) => frequency / by),
      );
      const ones = { kind: 'longrope', factors: expected.map(() => 1), attentionFactor: 1.25 } as const;
      const longrope = ropeConfig(size, base, ones);
      expect(longrope.factor).toBe(1.25);
      expect([...longrope.frequencies]).toEqual([...frequencies]);
    }),
  );
});

test('longrope divides each pair by its own factor', () => {
  fc.assert(
    fc.property(fc.array(factor, { minLength: 1, maxLength: 64 }), theta, (factors, base) => {
      const size = 2 * factors.length;
      const { frequencies } = ropeConfig(size, base, { kind: 'longrope', factors, attentionFactor: 1 });
      close(
        frequencies,
        plain(size, base).map((frequency, pair) => frequency / factors[pair]!),
      );
    }),
  );
});

describe('llama3', () => {
  const scaling = { kind: 'llama3', factor: 8, lowFactor: 1, highFactor: 4, originalContext: 8192 } as const;

  test('leaves short waves, divides long ones by the factor, and blends between, in order', () => {
    fc.assert(
      fc.property(rotated, theta, factor, context, (size, base, by, originalContext) => {
        const { frequencies } = ropeConfig(size, base, { ...scaling, factor: by, originalContext });
        plain(size, base).forEach((frequency, pair) => {
          const turns = originalContext / ((2 * Math.PI) / frequency);
          const smooth = Math.min(1, Math.max(0, (turns - 1) / 3));
          const expected = (smooth + (1 - smooth) / by) * frequency;
          expect(Math.abs(frequencies[pair]! / expected - 1)).toBeLessThan(1e-4);
          if (pair > 0) expect(frequencies[pair]).toBeLessThanOrEqual(frequencies[pair - 1]!);
        });
      }),
    );
  });
});

describe('yarn', () => {
  const base = { kind: 'yarn', betaFast: 32, betaSlow: 1, truncate: true, attentionFactor: 1 } as const;

  test('keeps what turns often, divides what turns seldom by the factor, with a ramp over pairs between', () => {
    fc.assert(
      fc.property(rotated, theta, factor, context, fc.boolean(), (size, base_, by, originalContext, truncate) => {
        const scaling: RopeScaling = { ...base, truncate, factor: by, originalContext };
        const { frequencies } = ropeConfig(size, base_, scaling);
        const own = plain(size, base_);
        // Where a pair turns `turns` times in the original context, as a number of pairs.
        const at = (turns: number) =>
          (size / 2) * (Math.log(originalContext / (2 * Math.PI * turns)) / Math.log(base_));
        // Where more turns than all pairs make are asked for, the reference's ramp goes the other way.
        fc.pre(at(32) + 1 < size - 1);
        own.forEach((frequency, pair) => {
          expect(frequencies[pair]).toBeLessThanOrEqual(frequency * (1 + 1e-5));
          expect(frequencies[pair]).toBeGreaterThanOrEqual((frequency / by) * (1 - 1e-5));
          const slack = truncate ? 1 : 1e-6;
          if (pair < at(32) - slack) expect(frequencies[pair]! / frequency).toBeCloseTo(1, 5);
          if (pair > at(1) + slack && pair > 0) expect((frequencies[pair]! * by) / frequency).toBeCloseTo(1, 4);
        });
      }),
    );
  });

  test("begins and ends its ramp at whole pairs, unless it shouldn't", () => {
    // 64 pairs of θ = 10⁶: 32768/(2π·32) and 32768/2π are θ^(pair/64) at pairs 23.59 and 39.65.
    const scaling = { ...base, factor: 4, originalContext: 32_768 } as const;
    const kept = (truncate: boolean, pair: number) => {
      const { frequencies } = ropeConfig(128, 1e6, { ...scaling, truncate });
      const own = 1e6 ** (-pair / 64);
      return (frequencies[pair]! / own - 1 / 4) / (3 / 4);
    };
    expect(kept(true, 23)).toBeCloseTo(1, 4);
    expect(kept(true, 24)).toBeCloseTo(16 / 17, 4);
    expect(kept(true, 39)).toBeCloseTo(1 / 17, 4);
    expect(kept(true, 40)).toBeCloseTo(0, 4);
    expect(kept(false, 24)).toBeCloseTo(1 - (24 - 23.594) / (39.647 - 23.594), 3);
    expect(kept(false, 39)).toBeCloseTo((39.647 - 39) / (39.647 - 23.594), 3);
  });

  test('has a ramp too where both ends are one pair', () => {
    const { frequencies } = ropeConfig(4, 1e6, { ...base, factor: 2, originalContext: 16, truncate: true });
    expect([...frequencies].every(Number.isFinite)).toBe(true);
  });

  test('attention factors are 1 without a stretch', () => {
    expect(yarnAttentionFactor(4)).toBeCloseTo(1 + 0.1 * Math.log(4), 12);
    expect(yarnAttentionFactor(40, 0.75)).toBeCloseTo(1 + 0.075 * Math.log(40), 12);
    expect([yarnAttentionFactor(1), yarnAttentionFactor(0.5), longropeAttentionFactor(0.5, 4096)]).toEqual([1, 1, 1]);
    // Phi-3-mini-128k: 131072 of 4096.
    expect(longropeAttentionFactor(32, 4096)).toBeCloseTo(Math.sqrt(1 + 5 / 12), 12);
  });
});
