import { Gpu } from '../../src/gpu/gpu.ts';
import { Linear } from '../../src/gpu/linear.ts';
import { packStep } from '../../src/gpu/pack-step.ts';
import { SegmentedMatrix } from '../../src/gpu/segmented-matrix.ts';
import { STEP_HEADER } from '../../src/gpu/step-layout.ts';
import { Random } from '../../src/gpu/testing/random.ts';
import type { MatrixFormat } from '../../src/gpu/weight-format.ts';
import { WeightMatrix } from '../../src/gpu/weight-matrix.ts';
import type { ExpertsConfig } from '../../src/model/decoder-config.ts';
import { allocateExperts, Experts } from '../../src/model/experts.ts';
import { madeUpMatrix } from './made-up-matrix.ts';
import { type BenchRow, type BenchTable, fixed, percent, type Roofline } from './report.ts';
import type { KernelsRequest } from './setting.ts';
import { type Encode, kernelTimes } from './timing.ts';

const HIDDEN = 1024;
const MIXTURE: ExpertsConfig = {
  ...{ kind: 'experts', experts: 32, chosen: 4, size: 512, activation: 'silu', normalised: true },
};
/** Of a dense network that multiplies a row by as many weights. */
const DENSE = MIXTURE.chosen * MIXTURE.size;
const ROWS = [1, 2, 8, 32, 128] as const;
/** Those of the formats asked for that are measured. */
const FORMATS: readonly MatrixFormat[] = ['bf16', 'q4-32-f16', 'q8-32-f16'];
const EXPERT_WEIGHTS = 3 * HIDDEN * MIXTURE.size;

interface Timed {
  readonly format: MatrixFormat;
  readonly rows: number;
  /** Experts that some row chose. */
  readonly named: number;
  readonly bytes: number;
  readonly mixture: Encode;
  readonly dense: Encode;
  ms: number;
  denseMs: number;
}

/** A small mixture of experts beside a dense network of as many weights a row: all its kernels, in one submit. */
export async function expertsTable(
  device: GPUDevice,
  roofline: Roofline,
  { formats, quick }: KernelsRequest,
): Promise<BenchTable> {
  const timed: Timed[] = [];
  for (const format of formats.filter((one) => FORMATS.includes(one))) {
    // One format's weights at a time.
    const gpu = new Gpu(device);
    try {
      const own = await formatMixtures(gpu, format);
      for (let round = 0; round < (quick ? 1 : 3); round++) {
        for (const one of own) {
          one.ms = Math.min(one.ms, (await kernelTimes(device, one.mixture, 2)).best);
          one.denseMs = Math.min(one.denseMs, (await kernelTimes(device, one.dense, 2)).best);
        }
      }
      timed.push(...own);
    } finally {
      gpu.destroy();
    }
  }
  const { experts, chosen, size } = MIXTURE;
  return {
    name: 'experts',
    title: `${chosen} of ${experts} experts of ${size} × ${HIDDEN} a row, beside a dense network of ${DENSE} (kernels alone, best)`,
    columns: ['weights', 'rows', 'experts read', 'ms', 'rows/s', 'GB/s', 'of copy', 'GFLOP/s', 'of mul-add', '× dense'],
    rows: timed.map((one) => row(one, roofline)),
  };
}

async function formatMixtures(gpu: Gpu, format: MatrixFormat): Promise<Timed[]> {
  const { experts, chosen, size } = MIXTURE;
  const most = ROWS.at(-1)!;
  const random = new Random(11);
  const [routerWeights, x] = [random.normals(experts * HIDDEN), random.normals(most * HIDDEN)];
  const segments = (rows: number, columns: number, cuts: number) =>
    Array.from({ length: experts }, () => Array.from({ length: cuts }, () => madeUpMatrix(format, rows, columns)));
  const router = { label: 'router', rows: experts, format: 'f32' as const };
  const read = async (from: number, length: number) =>
    new Uint8Array(routerWeights.buffer).subarray(from, from + length);
  const weights = {
    kind: 'experts' as const,
    router: await WeightMatrix.load(gpu, HIDDEN, [{ ...router, read }]),
    inner: { gateUp: (await SegmentedMatrix.load(gpu, HIDDEN, segments(size, HIDDEN, 2), true))! },
    down: (await SegmentedMatrix.load(gpu, size, segments(HIDDEN, size, 1)))!,
  };
  const gateUp = await WeightMatrix.loadPaired(
    gpu,
    HIDDEN,
    [0, 1].map(() => madeUpMatrix(format, DENSE, HIDDEN)),
    DENSE,
  );
  const down = await WeightMatrix.load(gpu, DENSE, [madeUpMatrix(format, HIDDEN, DENSE)]);
  const input = await gpu.storage('bench input', most * HIDDEN * 4);
  const output = await gpu.storage('bench output', most * HIDDEN * 4);
  const gated = await gpu.storage('bench gated', most * DENSE * 4);
  gpu.device.queue.writeBuffer(input, 0, x);
  const perExpert = (weights.inner.gateUp.bytes + weights.down.bytes) / experts;
  const all: Timed[] = [];
  for (const rows of ROWS) {
    const step = await rowsStep(gpu, rows);
    const scratch = await allocateExperts(gpu, HIDDEN, MIXTURE, rows, step);
    const mixture = await Experts.create(gpu, HIDDEN, MIXTURE, weights, scratch, {
      ...{ step, input, output, finish: { kind: 'store' } },
    });
    const shapeOf = (columns: number) => ({ outputStride: columns, countWord: STEP_HEADER.rows });
    const inner = await Linear.create(
      gpu,
      gateUp!,
      { ...shapeOf(DENSE), finish: { kind: 'gate' } },
      { step, input, output: gated },
    );
    const outer = await Linear.create(gpu, down, shapeOf(HIDDEN), { step, input: gated, output });
    const named = namedExperts(routerWeights, x.subarray(0, rows * HIDDEN), chosen);
    all.push({
      ...{ format, rows, named, bytes: named * perExpert },
      mixture: (pass) => mixture.encode(pass, rows),
      dense(pass) {
        inner.encode(pass, rows);
        outer.encode(pass, rows);
      },
      ...{ ms: Number.POSITIVE_INFINITY, denseMs: Number.POSITIVE_INFINITY },
    });
  }
  return all;
}

async function rowsStep(gpu: Gpu, rows: number): Promise<GPUBuffer> {
  const words = new Uint32Array(1 << 12);
  const blockTable = Array.from({ length: Math.ceil(rows / 16) }, (_, i) => i);
  const step = await gpu.storage('bench step', words.byteLength);
  const sequence = { slot: 0, tokens: new Uint32Array(rows), startPosition: 0, blockTable };
  gpu.device.queue.writeBuffer(step, 0, packStep(words, [sequence], [], 1).words);
  return step;
}

/** How many experts the rows choose, all together. */
function namedExperts(router: Float32Array, x: Float32Array, chosen: number): number {
  const named = new Set<number>();
  for (let row = 0; row < x.length / HIDDEN; row++) {
    const logits = Array.from({ length: router.length / HIDDEN }, (_, expert) => {
      let sum = 0;
      for (let k = 0; k < HIDDEN; k++) sum += router[expert * HIDDEN + k]! * x[row * HIDDEN + k]!;
      return [sum, expert] as const;
    });
    logits.sort(([a], [b]) => b - a);
    for (const [, expert] of logits.slice(0, chosen)) named.add(expert);
  }
  return named.size;
}

function row({ format, rows, named, bytes, ms, denseMs }: Timed, { copyGBs, gflops }: Roofline): BenchRow {
  const gbs = bytes / ms / 1e6;
  const rate = (2 * rows * MIXTURE.chosen * EXPERT_WEIGHTS) / ms / 1e6;
  const ratio = ms / denseMs;
  return {
    cells: [
      ...[format, String(rows), String(named), fixed(ms, 3), fixed((rows * 1e3) / ms, 1)],
      ...[fixed(gbs), percent(gbs / copyGBs), fixed(rate), percent(rate / gflops), fixed(ratio)],
    ],
    // Of one row what is read is the same.
    ...(rows === 1 ? { holds: ratio <= 1.5, bar: '≤ 1.5 × dense' } : { holds: undefined, bar: '' }),
    data: { rows, named, ms, denseMs, gbs, gflops: rate },
  };
}
