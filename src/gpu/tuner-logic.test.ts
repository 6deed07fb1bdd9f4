import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { choiceName, forcedKernel } from './choice-name.ts';
import type { KernelNeeds } from './kernel-needs.ts';
import { defaultChoice } from './linear-choice.ts';
import { variantName } from './linear-variant.ts';
import { type TunedDevice, tunerKey } from './tuner-key.ts';
import { fastest, relativeTime, TIMED_COLUMNS, TunerBudget } from './tuner-pick.ts';
import { decodeRecord, encodeRecord, type TunerRecord } from './tuner-record.ts';

const anyResult = fc
  .record({
    name: fc.string(),
    why: fc.option(fc.string(), { nil: undefined }),
    lost: fc.option(fc.constant(true as const), { nil: undefined }),
    ms: fc.double({ min: 0, max: 1e6, noNaN: true }),
  })
  .map(({ name, why, lost, ms }) => ({
    ...{ name, ms: ms + 0 },
    ...(why === undefined ? {} : { why }),
    ...(lost ? { lost } : {}),
  }));
const anyRecord: fc.Arbitrary<TunerRecord> = fc.record({
  key: fc.string(),
  choices: fc.dictionary(
    fc.string().filter((name) => name !== '__proto__'),
    fc.string(),
    { noNullPrototype: true },
  ),
  results: fc.array(anyResult),
  whole: fc.boolean(),
});

describe('a record', () => {
  test('comes back as it was, for its own key only', () => {
    fc.assert(
      fc.property(anyRecord, fc.string(), (record, other) => {
        const text = encodeRecord(record);
        expect(decodeRecord(text, record.key)).toEqual(record);
        if (other !== record.key) expect(decodeRecord(text, other)).toBeUndefined();
      }),
    );
  });

  test('that is damaged is none, or a whole one', () => {
    const isWhole = ({ choices, results, whole }: TunerRecord) =>
      typeof whole === 'boolean' &&
      Object.values(choices).every((name) => typeof name === 'string') &&
      results.every(
        ({ name, why, ms }) => typeof name === 'string' && ['string', 'undefined'].includes(typeof why) && ms >= 0,
      );
    fc.assert(
      fc.property(anyRecord, fc.nat(), fc.nat(20), fc.string(), (record, at, length, more) => {
        const text = encodeRecord(record);
        const from = at % text.length;
        const decoded = decodeRecord(text.slice(0, from) + more + text.slice(from + length), record.key);
        expect(decoded === undefined || isWhole(decoded)).toBe(true);
      }),
    );
    fc.assert(
      fc.property(fc.json(), fc.string(), (text, key) => {
        expect(decodeRecord(text, key)).toBeUndefined();
      }),
    );
  });

  test.each([
    ['of an older form', (value: object) => ({ ...value, form: 0 })],
    ['without choices', ({ choices: _, ...rest }: { choices?: unknown }) => rest],
    ['whose choice is no name', (value: object) => ({ ...value, choices: { product: 5 } })],
    ['whose result lacks its time', (value: object) => ({ ...value, results: [{ name: 'a kernel' }] })],
    ['whose results are no list', (value: object) => ({ ...value, results: { length: 0 } })],
    ['that does not say whether it is whole', (value: object) => ({ ...value, whole: 'yes' })],
  ])('%s is none', (_, change) => {
    const text = encodeRecord({ key: 'key', choices: {}, results: [], whole: true });
    expect(decodeRecord(text, 'key')).toBeDefined();
    expect(decodeRecord(JSON.stringify(change(JSON.parse(text))), 'key')).toBeUndefined();
  });

  test('that is not there is none', () => {
    expect(decodeRecord(undefined, 'key')).toBeUndefined();
  });
});

describe('the key', () => {
  const needs: KernelNeeds = {
    products: [
      { part: { tiles: 3, columns: 64, format: 'f32' }, form: { finish: 'emit', normed: false }, uses: 2 },
      { part: { tiles: 9, columns: 64, format: 'q4-32-f16' }, form: { finish: 'gate', normed: true }, uses: 1 },
    ],
    attention: { heads: 4, kvHeads: 2, headSize: 8, kvFormat: 'f32' },
    embeddings: [{ format: 'f32', of: 'tokens with norm' }],
    vocabulary: 512,
    rows: ['rms-norm'],
  };
  const info = {
    vendor: 'a',
    architecture: 'b',
    device: 'c',
    description: 'd',
    subgroupMinSize: 4,
    subgroupMaxSize: 4,
  };
  const limits = { maxComputeInvocationsPerWorkgroup: 256, maxComputeWorkgroupStorageSize: 16_384 };
  const device = { adapterInfo: info, features: new Set(['x', 'y']), limits } as unknown as TunedDevice;
  const base = tunerKey(device, needs, 'exact', '1');
  const changed = (change: Partial<Record<keyof TunedDevice, unknown>>) => ({ ...device, ...change }) as TunedDevice;

  test('is another where anything is that decides what is fast or right', () => {
    const others = [
      tunerKey(changed({ adapterInfo: { ...info, vendor: 'z' } }), needs, 'exact', '1'),
      tunerKey(changed({ adapterInfo: { ...info, description: 'z' } }), needs, 'exact', '1'),
      tunerKey(changed({ adapterInfo: { ...info, driver: 'z' } }), needs, 'exact', '1'),
      tunerKey(changed({ features: new Set(['x']) }), needs, 'exact', '1'),
      tunerKey(changed({ limits: { ...limits, maxComputeWorkgroupStorageSize: 32_768 } }), needs, 'exact', '1'),
      tunerKey(device, needs, 'fast', '1'),
      tunerKey(device, needs, 'exact', '2'),
      tunerKey(device, { ...needs, products: needs.products.slice(1) }, 'exact', '1'),
      tunerKey(device, { ...needs, vocabulary: 513 }, 'exact', '1'),
    ].map(({ key }) => key);
    expect(new Set([base.key, ...others]).size).toBe(1 + others.length);
  });

  test('is the same whatever order features and products are told in', () => {
    const turned = { ...needs, products: [...needs.products].reverse() };
    expect(tunerKey(changed({ features: new Set(['y', 'x']) }), turned, 'exact', '1')).toEqual(base);
  });

  test('shares its place with those of other versions and drivers, which it replaces', () => {
    expect(tunerKey(device, needs, 'exact', '2').slot).toBe(base.slot);
    expect(tunerKey(changed({ adapterInfo: { ...info, driver: 'z' } }), needs, 'exact', '1').slot).toBe(base.slot);
    expect(tunerKey(device, needs, 'fast', '1').slot).not.toBe(base.slot);
  });
});

const anyTimes = fc
  .tuple(...TIMED_COLUMNS.map(() => fc.double({ min: 1e-3, max: 1e3, noNaN: true })))
  .map((times) => new Map(TIMED_COLUMNS.map(({ columns }, i) => [columns as number, times[i]!])));

describe('the choice from measurements', () => {
  test('is never slower than the default, and none of the others is faster than it', () => {
    fc.assert(
      fc.property(anyTimes, fc.array(anyTimes, { maxLength: 6 }), (base, measured) => {
        const chosen = fastest(base, measured);
        const times = measured.map((one) => relativeTime(one, base));
        if (chosen === undefined) expect(times.every((time) => time >= 0.95)).toBe(true);
        else {
          expect(times[chosen]).toBe(Math.min(...times));
          expect(times[chosen]).toBeLessThan(0.95);
        }
      }),
    );
  });

  test('a choice beside itself takes 1, twice as long 2', () => {
    fc.assert(
      fc.property(anyTimes, (times) => {
        const twice = new Map([...times].map(([columns, ms]) => [columns, 2 * ms]));
        expect(relativeTime(times, times)).toBeCloseTo(1, 9);
        expect(relativeTime(twice, times)).toBeCloseTo(2, 9);
      }),
    );
  });

  test('compares what both were timed for; what was timed for nothing is not chosen', () => {
    const base = new Map([
      [1, 2],
      [8, 4],
    ]);
    expect(relativeTime(new Map([[1, 1]]), base)).toBe(0.5);
    expect(fastest(base, [new Map(), new Map([[1, Number.NaN]]), new Map([[8, 1]])])).toBe(2);
    expect(fastest(new Map([[1, 0]]), [new Map([[1, 0]])])).toBeUndefined();
  });
});

test('a budget says no to what would not end in time, by what it has learned, and to all once it is spent', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 10_000 }),
      fc.array(fc.record({ kernels: fc.integer({ min: 1, max: 9 }), each: fc.integer({ min: 0, max: 900 }) })),
      (ms, work) => {
        let now = 5;
        const budget = new TunerBudget(ms, () => now);
        let slowest = 0;
        for (const { kernels, each } of work) {
          if (!budget.fits(kernels)) continue;
          const before = budget.leftMs;
          expect(before).toBeGreaterThan(0);
          now += kernels * each;
          budget.learn(kernels, kernels * each);
          slowest = Math.max(slowest, each);
          expect(budget.leftMs).toBe(Math.max(0, before - kernels * each));
        }
        // It is late by one piece of work at most, and that one's kernels were slower than any before.
        expect(now - 5).toBeLessThanOrEqual(ms + 9 * slowest);
        now += ms;
        expect(budget.fits(1)).toBe(false);
      },
    ),
  );
});

describe('names', () => {
  const choice = defaultChoice(
    { tiles: 30, columns: 64, format: 'q4-32-f16' },
    { finish: 'gate', normed: true },
    false,
  );

  test('tell choices apart', () => {
    const other = { ...choice, matmul: { ...choice.matmul, threads: 128 } };
    expect(choiceName(choice)).not.toBe(choiceName(other));
    expect(choiceName({ ...choice, splits: 2 })).not.toBe(choiceName(choice));
    expect(choiceName(structuredClone(choice))).toBe(choiceName(choice));
  });

  test('of what is forced are a path or a variant, and anything else is refused', () => {
    expect(forcedKernel('plain', 'exact')).toEqual({ path: 'plain' });
    const [variant] = choice.matvec;
    expect(forcedKernel(variantName(variant!), 'exact')).toEqual({ variant });
    expect(() => forcedKernel('fastest', 'exact')).toThrow(
      /no variant of a product is named "fastest"; names are like/,
    );
  });
});
