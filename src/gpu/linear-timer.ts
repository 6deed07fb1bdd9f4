import type { AttentionShape } from './attention.ts';
import type { DeviceWatch } from './device-watch.ts';
import type { ProductNeed } from './kernel-needs.ts';
import { KernelTrial } from './kernel-trial.ts';
import { Linear, type LinearFinish } from './linear.ts';
import type { LinearChoice } from './linear-choice.ts';
import { squaresWords } from './norm-input.ts';
import { timePass } from './pass-timer.ts';
import { plainTurns, ropeTable } from './rope-table.ts';
import { rowWords } from './row-words.ts';
import { STEP_HEADER } from './step-layout.ts';
import { TIMED_COLUMNS, type Times } from './tuner-pick.ts';
import { matrixLayout, TILE_ROWS, wordsOfRow } from './weight-format.ts';
import type { MatrixPart, WeightMatrix } from './weight-matrix.ts';

/** How long anything may take. */
const BOUND_MS = 30_000;

/** A product of the model's shape, of zeros, whose choices are timed. */
export class LinearTimer {
  readonly #trial: KernelTrial;
  readonly #need: ProductNeed;
  readonly #matrix: WeightMatrix;
  readonly #buffers: { readonly step: GPUBuffer; readonly input: GPUBuffer; readonly output: GPUBuffer };
  readonly #finish: LinearFinish;
  readonly #squares: GPUBuffer;

  private constructor(
    trial: KernelTrial,
    need: ProductNeed,
    matrix: WeightMatrix,
    buffers: { readonly step: GPUBuffer; readonly input: GPUBuffer; readonly output: GPUBuffer },
    finish: LinearFinish,
    squares: GPUBuffer,
  ) {
    this.#trial = trial;
    this.#need = need;
    this.#matrix = matrix;
    this.#buffers = buffers;
    this.#finish = finish;
    this.#squares = squares;
  }

  /** Of at most `mostWeights` weights: a larger matrix is cut, which changes little about which choice is fastest. */
  static async create(
    watch: DeviceWatch,
    need: ProductNeed,
    shape: AttentionShape,
    mostWeights: number,
  ): Promise<LinearTimer> {
    const trial = new KernelTrial(watch, BOUND_MS);
    try {
      const { part, form } = need;
      const most = Math.max(1, Math.floor(mostWeights / (TILE_ROWS * part.columns)));
      const tiles = Math.min(part.tiles, most);
      const paired = form.finish === 'gate' || form.finish === 'rotate';
      const matrix = await blankMatrix(trial, { ...part, tiles }, paired);
      const columns = mostColumns(need);
      const outputs = columns * 4 * rowWords(tiles * TILE_ROWS);
      const [step, input, output, squares, gain, scaled, squaresOut, table, kv] = await Promise.all([
        trial.rowsStep(columns),
        trial.zeros(columns * 4 * rowWords(part.columns)),
        trial.zeros(outputs),
        trial.zeros(columns * 4 * squaresWords(part.columns)),
        trial.zeros(4 * rowWords(tiles * TILE_ROWS)),
        trial.zeros(outputs),
        trial.zeros(columns * 4 * squaresWords(tiles * TILE_ROWS)),
        trial.buffer(ropeTable(columns, plainTurns(shape.headSize, 10_000))),
        trial.zeros(Math.ceil(columns / 16) * 2 * 16 * tiles * TILE_ROWS),
      ]);
      const heads = Math.floor((tiles * TILE_ROWS) / shape.headSize);
      const kvHeads = Math.max(1, Math.floor((heads * shape.kvHeads) / (shape.heads + 2 * shape.kvHeads)));
      const finish: LinearFinish =
        form.finish === 'emit'
          ? { kind: 'emit', gain, scaled, squares: squaresOut }
          : form.finish === 'rotate'
            ? { kind: 'rotate', heads: heads - 2 * kvHeads, kvHeads, headSize: shape.headSize, table, kv }
            : { kind: form.finish };
      return new LinearTimer(trial, need, matrix, { step, input, output }, finish, squares);
    } catch (error) {
      trial.close();
      throw error;
    }
  }

  /** Milliseconds of a choice by number of columns. */
  async time(choice: LinearChoice): Promise<Times> {
    const linear = await Linear.create(
      this.#trial.gpu,
      this.#matrix,
      {
        outputStride: 4 * rowWords(this.#matrix.rows),
        countWord: STEP_HEADER.rows,
        finish: this.#finish,
        ...(this.#need.form.normed ? { norm: { epsilon: 1e-5, squares: this.#squares } } : {}),
      },
      this.#buffers,
      () => choice,
    );
    const times = new Map<number, number>();
    for (const { columns } of TIMED_COLUMNS) {
      if (columns > mostColumns(this.#need)) continue;
      times.set(columns, await timePass(this.#trial, (pass) => linear.encode(pass, columns)));
    }
    return times;
  }

  close(): void {
    this.#trial.close();
  }
}

function mostColumns({ mostColumns: most }: ProductNeed): number {
  return Math.min(most ?? Number.POSITIVE_INFINITY, TIMED_COLUMNS.at(-1)!.columns);
}

/** A matrix of zeros, without packing one. */
async function blankMatrix(trial: KernelTrial, part: ProductNeed['part'], paired: boolean): Promise<WeightMatrix> {
  const { tiles, columns, format } = part;
  const sizes = matrixLayout(format).planes.map((bytes) => tiles * TILE_ROWS * wordsOfRow(format, columns) * bytes);
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  const buffer = await trial.zeros(bytes / 4);
  let offset = 0;
  const planes = sizes.map((size) => {
    offset += size;
    return { buffer, offset: offset - size, size };
  });
  const rows = tiles * TILE_ROWS;
  const own: MatrixPart = { firstRow: 0, rows: paired ? rows / 2 : rows, tiles, format, buffer, planes };
  return { rows, columns, parts: [own], bytes, paired };
}
