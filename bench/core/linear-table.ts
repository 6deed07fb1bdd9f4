import { Gpu } from '../../src/gpu/gpu.ts';
import { Linear } from '../../src/gpu/linear.ts';
import { candidates } from '../../src/gpu/linear-candidates.ts';
import { linearFeatures } from '../../src/gpu/linear-features.ts';
import { variantName } from '../../src/gpu/linear-variant.ts';
import { packStep } from '../../src/gpu/pack-step.ts';
import { STEP_HEADER } from '../../src/gpu/step-layout.ts';
import { type MatrixFormat, TILE_ROWS, tileBytes } from '../../src/gpu/weight-format.ts';
import { WeightMatrix } from '../../src/gpu/weight-matrix.ts';
import { SPIKE_COLUMNS, SPIKE_ROWS, SpikeGemv } from '../spike-gemv/spike-gemv.ts';
import { madeUpMatrix } from './made-up-matrix.ts';
import { type BenchRow, type BenchTable, fixed, percent, type Roofline } from './report.ts';
import type { KernelsRequest } from './setting.ts';
import { type Encode, kernelTimes } from './timing.ts';

const COLUMNS = [1, 2, 4, 8, 64] as const;
const WEIGHTS = SPIKE_ROWS * SPIKE_COLUMNS;
/** The format of the spike, but for its scales. */
const SPIKE_FORMAT = 'q4-32-f16';

interface Timed {
  readonly name: string;
  readonly format: MatrixFormat | undefined;
  readonly columns: number;
  /** Whether it is taken without a tuner: only that is held against bars. */
  readonly first: boolean;
  readonly bytes: number;
  readonly encode: Encode;
  ms: number;
}

/** What may win here on one matrix of the spike's shape, each format and number of columns, and the spike itself. */
export async function linearTable(
  device: GPUDevice,
  roofline: Roofline,
  { formats, quick }: KernelsRequest,
): Promise<BenchTable> {
  const gpu = new Gpu(device);
  const spike = await SpikeGemv.create(device);
  try {
    await spike.check();
    const timed: Timed[] = [
      {
        name: 'spike q4',
        format: undefined,
        columns: 1,
        first: true,
        bytes: WEIGHTS * 0.75,
        encode: (pass) => spike.encode(pass),
        ms: Number.POSITIVE_INFINITY,
      },
    ];
    for (const format of formats) timed.push(...(await formatKernels(gpu, format)));
    // Round after round, so that whoever disturbs this machine disturbs all alike.
    for (let round = 0; round < (quick ? 1 : 3); round++) {
      for (const kernel of timed) {
        const { best } = await kernelTimes(device, kernel.encode, 2);
        kernel.ms = Math.min(kernel.ms, best);
      }
    }
    return {
      name: 'linear',
      title: `Products with ${SPIKE_ROWS} × ${SPIKE_COLUMNS} weights (kernels alone, best)`,
      columns: ['weights', 'columns', 'ms', '10⁹ mul-adds/s', 'GB/s of weights', 'of copy', 'GFLOP/s', 'of mul-add'],
      rows: timed.map((kernel) => row(kernel, timed, roofline)),
    };
  } finally {
    spike.destroy();
    gpu.destroy();
  }
}

async function formatKernels(gpu: Gpu, format: MatrixFormat): Promise<Timed[]> {
  const matrix = await WeightMatrix.load(gpu, SPIKE_COLUMNS, [madeUpMatrix(format, SPIKE_ROWS, SPIKE_COLUMNS)]);
  const most = COLUMNS.at(-1)!;
  const words = new Uint32Array(1 << 12);
  const blockTable = Array.from({ length: most / 16 }, (_, i) => i);
  const step = await gpu.storage('bench step', words.byteLength);
  gpu.device.queue.writeBuffer(
    step,
    0,
    packStep(words, [{ slot: 0, tokens: new Uint32Array(most), startPosition: 0, blockTable }], [], 1).words,
  );
  const input = await gpu.storage('bench input', most * SPIKE_COLUMNS * 4);
  const x = Float32Array.from({ length: most * SPIKE_COLUMNS }, (_, i) => ((i * 37) % 101) / 101 - 0.5);
  gpu.device.queue.writeBuffer(input, 0, x);
  const output = await gpu.storage('bench output', most * SPIKE_ROWS * 4);
  const part = { tiles: SPIKE_ROWS / TILE_ROWS, columns: SPIKE_COLUMNS, format };
  const timed = new Map<string, Timed>();
  // What is taken without a tuner first, and what else may win here.
  const choices = candidates(part, { finish: 'store', normed: false }, linearFeatures(gpu.device), 'fast');
  for (const [at, choice] of choices.entries()) {
    const linear = await Linear.create(
      gpu,
      matrix,
      { outputStride: SPIKE_ROWS, countWord: STEP_HEADER.rows },
      { step, input, output },
      () => choice,
    );
    for (const columns of COLUMNS) {
      const name = `${format} ${variantName(choice.matvec[columns - 1] ?? choice.matmul)} of ${choice.splits}`;
      // Choices share variants.
      if (timed.has(`${name} ${columns}`)) continue;
      timed.set(`${name} ${columns}`, {
        name: choices.length > 1 ? name : name.replace(/ of 1$/, ''),
        ...{ format, columns, first: at === 0 },
        bytes: part.tiles * tileBytes(format, SPIKE_COLUMNS),
        encode: (pass) => linear.encode(pass, columns),
        ms: Number.POSITIVE_INFINITY,
      });
    }
  }
  return [...timed.values()];
}

function row(kernel: Timed, all: readonly Timed[], roofline: Roofline): BenchRow {
  const { name, format, columns, first, bytes, ms } = kernel;
  const perSecond = (WEIGHTS * columns) / ms / 1e6;
  const gbs = bytes / ms / 1e6;
  const gflops = 2 * perSecond;
  return {
    cells: [
      name,
      String(columns),
      fixed(ms),
      fixed(perSecond, 3),
      fixed(gbs),
      percent(gbs / roofline.copyGBs),
      fixed(gflops),
      percent(gflops / roofline.gflops),
    ],
    ...(first ? bar(format, columns, perSecond, all) : { holds: undefined, bar: '' }),
    data: { columns, ms, perSecond, gbs, gflops },
  };
}

/** One column is held against the spike, eight against one. */
function bar(format: MatrixFormat | undefined, columns: number, perSecond: number, all: readonly Timed[]) {
  const rate = (of: MatrixFormat | undefined) => {
    const { ms } = all.find((kernel) => kernel.format === of && kernel.columns === 1 && kernel.first)!;
    return WEIGHTS / ms / 1e6;
  };
  if (format !== SPIKE_FORMAT || (columns !== 1 && columns !== 8)) return { holds: undefined, bar: '' };
  const times = perSecond / rate(columns === 1 ? undefined : format);
  const least = columns === 1 ? 0.9 : 2;
  return {
    holds: times >= least,
    bar: `${fixed(times)} × ${columns === 1 ? 'the spike' : 'one column'}, at least ${least}`,
  };
}
