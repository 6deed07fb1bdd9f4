import { expect, test } from 'vitest';
import { newTestDevice, testDevice } from '../testing/device.ts';
import { ATTENTION_FORMS } from './attention-choice.ts';
import { choiceName } from './choice-name.ts';
import { type KernelNeeds, productKey, ROW_KERNELS } from './kernel-needs.ts';
import { candidates } from './linear-candidates.ts';
import { defaultChoice, type LinearChoice, MATVEC_COLUMNS } from './linear-choice.ts';
import { type LinearFeatures, linearFeatures } from './linear-features.ts';
import { linearUseName, linearUses } from './linear-trial.ts';
import type { LinearForm, LinearVariant } from './linear-variant.ts';
import { KernelFailure, KernelLost, otherCount } from './self-test.ts';
import { Tuner } from './tuner.ts';
import type { MatrixFormat } from './weight-format.ts';

const LONG = import.meta.env.SHOAL_LONG === '1';
const FORMS: readonly LinearForm[] = [
  { finish: 'rotate', normed: true },
  { finish: 'emit', normed: false },
  { finish: 'gate', normed: true },
  { finish: 'store', normed: false },
];

function needsOf(formats: readonly MatrixFormat[], forms = FORMS): KernelNeeds {
  return {
    products: formats.flatMap((format) =>
      forms.map((form) => ({ part: { tiles: 3, columns: 96, format }, form, uses: 2 })),
    ),
    attention: { heads: 4, kvHeads: 2, headSize: 8, kvFormat: 'f32' },
    embeddings: formats.map((format) => ({ format, of: 'tokens with norm' as const })),
    vocabulary: 515,
    rows: ROW_KERNELS,
  };
}

/** Compiles other WGSL than it is given, where `change` says so. */
function mutate(device: GPUDevice, change: (code: string) => string): void {
  const create = device.createShaderModule.bind(device);
  device.createShaderModule = (descriptor) => create({ ...descriptor, code: change(descriptor.code) });
}

const NORMED: LinearForm = { finish: 'store', normed: true };
const PLAIN: LinearVariant = {
  ...{ path: 'plain', rows: 8, columns: 2, threads: 16, columnThreads: 1, splitThreads: 1, chains: 4 },
};
const uniform = (variant: LinearVariant): LinearChoice => ({
  splits: 1,
  matvec: MATVEC_COLUMNS.map(() => variant),
  matmul: variant,
});
/** Like PLAIN; its code can be told by its threads. */
const withThreads = (threads: number) => uniform({ ...PLAIN, threads });
const hasThreads = (code: string, threads: number) => code.includes(`const THREADS = ${threads}u;`);
const nameOf = (choice: LinearChoice) => linearUseName(linearUses('f32', NORMED, choice)[0]!);
const ONE_PRODUCT = needsOf(['f32'], [NORMED]);
/** All kernels but products, which another test tries, as if they had passed. */
const OTHERS = {
  choices: {},
  results: ['attention f32 threads', 'embedding of tokens with norm f32', 'sampler', ...ROW_KERNELS].map((name) => ({
    name,
    ms: 0,
  })),
};
/** Names of choices but attention's. */
const productNames = ({ names: { attention, ...products } }: Tuner) => {
  expect(attention).toBe('threads-threads');
  return products;
};
const OPTIONS = { precision: 'exact', known: OTHERS, leastWeights: 0, totalMs: 60_000, tuneMs: 30_000 } as const;

test('every kernel of a model passes on this adapter', async () => {
  const formats: MatrixFormat[] = LONG ? ['f16', 'bf16', 'q8-16-f32', 'q4-32-f16'] : ['q4-32-f16'];
  const needs = needsOf(formats, LONG ? FORMS : FORMS.slice(0, 1));
  const progress: [number, number][] = [];
  const tuner = new Tuner(await testDevice(), needs, {
    ...{ precision: 'exact', totalMs: 60_000 },
    onProgress: (done, total) => progress.push([done, total]),
  });
  await tuner.run();
  expect(tuner.results.filter(({ why }) => why !== undefined)).toEqual([]);
  expect(tuner.results.length).toBeGreaterThan(1 + otherCount(needs));
  expect(Object.keys(productNames(tuner))).toEqual(needs.products.map(({ part, form }) => productKey(part, form)));
  const [done, total] = progress.at(-1)!;
  expect(done).toBe(total);
  expect(progress.every(([, all]) => all === total)).toBe(true);
  expect(progress.every(([now], i) => i === 0 || now >= progress[i - 1]![0])).toBe(true);
});

// What only GPUs are offered: here it compiles for a minute and is slow, but as right. Fast ones are exact ones and more.
test.runIf(LONG)(
  'what GPUs choose from passes here too',
  async () => {
    const device = await testDevice();
    const features: LinearFeatures = { ...linearFeatures(device), software: false };
    const tuner = new Tuner(device, needsOf(['q4-32-f16'], FORMS.slice(0, 3)), {
      ...{ precision: 'fast', leastWeights: 0, tuneMs: 120_000, careful: true },
      offers: { linear: (part, form) => candidates(part, form, features, 'fast'), attention: () => ATTENTION_FORMS },
    });
    await tuner.run();
    expect(tuner.results.filter(({ why }) => why !== undefined)).toEqual([]);
    const paths = new Set(tuner.results.flatMap(({ name }) => /^linear .* ([a-z0-9]+)-\d+x/.exec(name)?.[1] ?? []));
    expect(paths.has('dot')).toBe(features.packedDot);
    expect(paths.has('plain')).toBe(true);
  },
  180_000,
);

test('what there is no time for is not used, and tried at a later start', async () => {
  const device = await testDevice();
  const choice: LinearChoice = { ...withThreads(16), matvec: MATVEC_COLUMNS.map(() => withThreads(24).matmul) };
  const [many, few] = [withThreads(16), withThreads(24)].map(nameOf);
  const offers = { linear: () => [choice] };
  const [product] = ONE_PRODUCT.products.map(({ part, form }) => productKey(part, form));
  const hurried = new Tuner(device, ONE_PRODUCT, { ...OPTIONS, offers, totalMs: 0 });
  await hurried.run();
  // Nothing is served without one of them.
  expect(hurried.results.map(({ name }) => name).filter((name) => name.startsWith('linear'))).toEqual([many]);
  expect(hurried.untested).toBe(1);
  expect(productNames(hurried)[product!]).toBe(choiceName(withThreads(16)));
  const { part, form } = ONE_PRODUCT.products[0]!;
  expect(hurried.choices.linear(part, form)).toEqual(withThreads(16));
  const later = new Tuner(device, ONE_PRODUCT, {
    ...{ ...OPTIONS, offers },
    known: { choices: hurried.names, results: hurried.results },
  });
  await later.run();
  expect(later.untested).toBe(0);
  expect(later.results.map(({ name }) => name)).toEqual([...hurried.results.map(({ name }) => name), few]);
  expect(productNames(later)[product!]).toBe(choiceName(choice));
});

test('variants whose WGSL is wrong are found, told and not used', async () => {
  const device = await newTestDevice();
  mutate(device, (code) => {
    // A hundredth too much, no numbers at all, no shader at all.
    if (hasThreads(code, 24)) return code.replace('1.0 / sqrt(', '1.01 / sqrt(');
    if (hasThreads(code, 40)) return code.replace('1.0 / sqrt(', '1.0 / sqrt(-');
    if (hasThreads(code, 56)) return code.replace('1.0 / sqrt(', '1.0 / root(');
    return code;
  });
  const all = [16, 24, 40, 56, 48].map(withThreads);
  const tuner = new Tuner(device, ONE_PRODUCT, { ...OPTIONS, offers: { linear: () => all } });
  await tuner.run();
  const failed = tuner.results.filter(({ why }) => why !== undefined);
  expect(failed.map(({ name }) => name)).toEqual(all.slice(1, 4).map(nameOf));
  expect(failed[0]!.why).toMatch(/^of 1 columns number \d+ is \S+, should be \S+$/);
  expect(failed[1]!.why).toMatch(/^of 1 columns number 0 is (NaN|-?inf|0)/i);
  expect(failed[2]!.why).toMatch(/root/);
  const [chosen] = Object.values(productNames(tuner));
  expect([all[0]!, all[4]!].map(choiceName)).toContain(chosen);
  const { part, form } = ONE_PRODUCT.products[0]!;
  expect(choiceName(tuner.choices.linear(part, form))).toBe(chosen);
  device.destroy();
});

test('the plain path stands in for a default that is wrong; where it is wrong too, a sentence names the kernel', async () => {
  const device = await newTestDevice();
  const { part, form } = ONE_PRODUCT.products[0]!;
  const plain = defaultChoice(part, form, false);
  let broken = (code: string) => hasThreads(code, 24);
  mutate(device, (code) => (broken(code) ? code.replace('1.0 / sqrt(', '1.01 / sqrt(') : code));
  const linear = () => [withThreads(24)];
  const tuner = new Tuner(device, ONE_PRODUCT, { ...OPTIONS, offers: { linear } });
  await tuner.run();
  expect(Object.values(productNames(tuner))).toEqual([choiceName(plain)]);
  device.destroy();

  const worse = await newTestDevice();
  broken = (code) => code.includes('1.0 / sqrt(') && code.includes('const THREADS');
  mutate(worse, (code) => (broken(code) ? code.replace('1.0 / sqrt(', '1.01 / sqrt(') : code));
  const error = await new Tuner(worse, ONE_PRODUCT, { ...OPTIONS, offers: { linear } }).run().catch((reason) => reason);
  expect(error).toBeInstanceOf(KernelFailure);
  expect(error.message).toContain(linearUseName(linearUses('f32', NORMED, plain)[0]!));
  expect(error.message).toMatch(/nothing is served: .* should be /);
  worse.destroy();
});

test.runIf(LONG)('a kernel that is the only one of its kind, and wrong, is an error that names it', async () => {
  const device = await newTestDevice();
  mutate(device, (code) => code.replace(/inverseSqrt\(|1\.0 \/ sqrt\(/, '1.01 / sqrt('));
  const known = { choices: {}, results: OTHERS.results.filter(({ name }) => name !== 'rms-norm') };
  const tuner = new Tuner(device, ONE_PRODUCT, { ...OPTIONS, known });
  await expect(tuner.run()).rejects.toThrow(/kernel rms-norm wrong, so nothing is served: number \d+ is/);
  device.destroy();
});

test('a device that is lost by a variant says by which, and what is known of it keeps it from being tried again', async () => {
  const device = await newTestDevice();
  mutate(device, (code) => {
    if (hasThreads(code, 24)) device.destroy();
    return code;
  });
  const linear = () => [withThreads(16), withThreads(24)];
  const tuner = new Tuner(device, ONE_PRODUCT, { ...OPTIONS, careful: true, offers: { linear } });
  const error = await tuner.run().catch((reason) => reason);
  expect(error).toBeInstanceOf(KernelLost);
  expect(error.results.map(({ name }: { name: string }) => name)).toEqual([nameOf(withThreads(24))]);
  expect(error.results[0].why).toMatch(/device was lost/);

  const next = await newTestDevice();
  mutate(next, (code) => {
    if (hasThreads(code, 24)) throw new Error('tried again');
    return code;
  });
  const known = { choices: {}, results: [...OTHERS.results, ...error.results] };
  const again = new Tuner(next, ONE_PRODUCT, { ...OPTIONS, known, offers: { linear } });
  await again.run();
  expect(Object.values(productNames(again))).toEqual([choiceName(withThreads(16))]);
  next.destroy();
});

test('without time it takes the default, tried all the same; what was kept is taken untried', async () => {
  const device = await newTestDevice();
  const linear = () => [withThreads(16), withThreads(48)];
  const tuner = new Tuner(device, ONE_PRODUCT, { ...OPTIONS, tuneMs: 0, offers: { linear } });
  await tuner.run();
  expect(Object.values(productNames(tuner))).toEqual([choiceName(withThreads(16))]);
  expect(tuner.results.map(({ name }) => name)).toEqual([
    ...OTHERS.results.map(({ name }) => name),
    nameOf(withThreads(16)),
  ]);

  const key = Object.keys(productNames(tuner))[0]!;
  const kept = {
    choices: { [key]: choiceName(withThreads(48)), attention: 'threads-threads' },
    results: tuner.results,
  };
  const again = new Tuner(device, ONE_PRODUCT, { ...OPTIONS, known: kept, offers: { linear } });
  expect(again.restore()).toBe(true);
  expect(again.names).toEqual(kept.choices);
  const gone = new Tuner(device, ONE_PRODUCT, { ...OPTIONS, known: kept, offers: { linear: () => [withThreads(16)] } });
  expect(gone.restore()).toBe(false);
  expect(productNames(gone)).toEqual({});
  device.destroy();
});

test.runIf(LONG)('what loading asks for and nothing foresaw is tried afterwards', async () => {
  const device = await newTestDevice();
  const linear = () => [withThreads(24)];
  const tuner = new Tuner(device, { ...ONE_PRODUCT, products: [] }, { ...OPTIONS, offers: { linear } });
  await tuner.run();
  const { part, form } = ONE_PRODUCT.products[0]!;
  expect(tuner.choices.linear(part, form)).toEqual(withThreads(24));
  expect(await tuner.tryUnforeseen()).toBe(true);
  expect(tuner.results.at(-1)!.name).toBe(nameOf(withThreads(24)));
  device.destroy();

  const other = await newTestDevice();
  mutate(other, (code) => (hasThreads(code, 24) ? code.replace('1.0 / sqrt(', '1.01 / sqrt(') : code));
  const wrong = new Tuner(other, { ...ONE_PRODUCT, products: [] }, { ...OPTIONS, offers: { linear } });
  await wrong.run();
  wrong.choices.linear(part, form);
  expect(await wrong.tryUnforeseen()).toBe(false);
  expect(choiceName(wrong.choices.linear(part, form))).toBe(choiceName(defaultChoice(part, form, false)));
  other.destroy();
});
