import { AddNormed } from '../gpu/add-normed.ts';
import type { CombineFinish } from '../gpu/combine-experts.ts';
import type { Gpu } from '../gpu/gpu.ts';
import { LayerNorm } from '../gpu/layer-norm.ts';
import { Linear, type LinearFinish, type LinearShape } from '../gpu/linear.ts';
import type { ChooseLinear } from '../gpu/linear-choice.ts';
import { NormInput, squaresWords } from '../gpu/norm-input.ts';
import { rowWords } from '../gpu/row-words.ts';
import { STEP_HEADER } from '../gpu/step-layout.ts';
import type { WeightMatrix } from '../gpu/weight-matrix.ts';
import type { DecoderConfig, NormConfig } from './decoder-config.ts';
import type { NormWeights, ProductWeights } from './decoder-weights.ts';
import type { RowsKernel } from './rows-kernel.ts';
import { type SiteAdapters, updateSite } from './site-adapters.ts';

/** How products read the stream under a norm. */
export interface StreamReader {
  /** What goes before the first product. */
  readonly kernels: readonly RowsKernel[];
  /** [rows, columns padded to 4] f32. */
  readonly input: GPUBuffer;
  /** The input is yet to be divided by its root mean square. */
  readonly norm?: LinearShape['norm'];
  /** A product of the normed rows into [rows, columns]. */
  product(
    matrix: WeightMatrix,
    output: GPUBuffer,
    columns: number,
    finish: LinearFinish,
    choose?: ChooseLinear,
  ): Promise<Linear>;
}

/** How a product goes back into the stream. */
export interface AddOptions {
  /** Multiplies what is added. */
  readonly scale: number;
  /** The product is normed before it is added. */
  readonly outputNorm: NormWeights | undefined;
  /** The norm under which the stream is read next; absent: none, or nobody reads it. */
  readonly next: NormWeights | undefined;
  /** Adds what rows' adapters make of the product's input. */
  readonly adapters?: SiteAdapters | undefined;
}

/**
 * The residual stream: hidden states that layers read under norms, and add to. Of root mean square norms, what adds to it leaves
 * the next one's input (`scaled`, `squares`; see shaders/norm-input.wgsl), so that norms have no kernel of their own;
 * LayerNorms have one, before what reads them.
 */
export class ResidualStream {
  readonly step: GPUBuffer;
  /** [rows, columns padded to 4] f32. */
  readonly hidden: GPUBuffer;
  /** It times the next norm's weights, and its squares summed. */
  readonly scaled: GPUBuffer;
  readonly squares: GPUBuffer;
  readonly columns: number;
  readonly norm: NormConfig;
  readonly #gpu: Gpu;
  /** LayerNorm's rows; where outputs are normed, what a product leaves for that. No layer has both. */
  readonly #normed: GPUBuffer | undefined;
  readonly #branch: GPUBuffer | undefined;

  private constructor(gpu: Gpu, config: DecoderConfig, step: GPUBuffer, buffers: StreamBuffers) {
    this.#gpu = gpu;
    this.step = step;
    this.columns = config.hiddenSize;
    this.norm = config.norm;
    this.hidden = buffers.hidden;
    this.scaled = buffers.scaled;
    this.squares = buffers.squares;
    this.#normed = buffers.normed;
    this.#branch = buffers.branch;
  }

  static async create(gpu: Gpu, config: DecoderConfig, step: GPUBuffer, rows: number): Promise<ResidualStream> {
    const { hiddenSize, layers, norm } = config;
    const allocate = (label: string, columns: number) => gpu.storage(label, rows * rowWords(columns) * 16);
    const layerNorm = norm.kind === 'layer';
    const normsOutputs = layers.some(({ norms }) => norms !== 'before');
    const [hidden, scaled, squares, normed, branch] = await Promise.all([
      allocate('hidden', hiddenSize),
      allocate('scaled', layerNorm ? 1 : hiddenSize),
      allocate('squares', layerNorm ? 1 : 4 * squaresWords(hiddenSize)),
      layerNorm ? allocate('normed', hiddenSize) : undefined,
      normsOutputs ? allocate('branch', hiddenSize) : undefined,
    ]);
    return new ResidualStream(gpu, config, step, { hidden, scaled, squares, normed, branch });
  }

  /** Numbers from one row to the next. */
  get stride(): number {
    return 4 * rowWords(this.columns);
  }

  /** Reads the stream under `norm`; absent: as it is. */
  async reader(norm: NormWeights | undefined): Promise<StreamReader> {
    const { step, hidden, scaled, squares } = this;
    const { epsilon, kind } = this.norm;
    const readerOf = (kernels: readonly RowsKernel[], input: GPUBuffer, isNormed: boolean): StreamReader => {
      const more = isNormed ? { norm: { epsilon, squares } } : {};
      return {
        ...{ kernels, input, ...more },
        product: (matrix, output, columns, finish, choose) =>
          Linear.create(
            this.#gpu,
            matrix,
            { outputStride: 4 * rowWords(columns), countWord: STEP_HEADER.rows, finish, ...more },
            { step, input, output },
            choose,
          ),
      };
    };
    if (!norm) return readerOf([], hidden, false);
    if (kind === 'rms') return readerOf([], scaled, true);
    const normed = this.#normed!;
    const layerNorm = await LayerNorm.create(
      this.#gpu,
      { columns: this.columns, epsilon, of: 'rows' },
      { step, input: hidden, weight: norm.gain, bias: norm.bias!, output: normed },
    );
    return readerOf([layerNorm], normed, false);
  }

  /** Adds the product of `input` [rows, matrix columns] to the stream, and leaves the next norm its input. */
  async adder(
    { matrix, bias }: ProductWeights,
    input: GPUBuffer,
    { scale, outputNorm, next, adapters }: AddOptions,
  ): Promise<readonly RowsKernel[]> {
    const { step, hidden } = this;
    const product = (output: GPUBuffer, finish: LinearFinish) =>
      Linear.create(
        this.#gpu,
        matrix,
        { outputStride: this.stride, countWord: STEP_HEADER.rows, finish },
        { step, input, output },
      );
    // Into the stream before the product, which leaves the next norm its input.
    const update = (output: GPUBuffer, by: number): Promise<RowsKernel>[] =>
      adapters ? [updateSite(this.#gpu, adapters, { step, input, output, outputStride: this.stride, scale: by })] : [];
    if (outputNorm) {
      const branch = this.#branch!;
      return Promise.all([
        product(branch, { kind: 'store', bias }),
        ...update(branch, 1),
        this.addNormed(branch, outputNorm, scale, next),
      ]);
    }
    const emits = this.#emits(next);
    // An emitted product has no place for a bias.
    if (emits && !bias)
      return Promise.all([...update(hidden, scale), product(hidden, { kind: 'emit', scale, ...emits })]);
    return Promise.all([...update(hidden, scale), product(hidden, { kind: 'add', scale, bias }), ...this.enter(next)]);
  }

  /** How what experts made of rows goes into the stream, and leaves the next norm its input: into `output`, then by `after`. */
  async combined({ scale, outputNorm, next }: AddOptions): Promise<{
    readonly output: GPUBuffer;
    readonly finish: CombineFinish;
    readonly after: readonly RowsKernel[];
  }> {
    if (outputNorm) {
      const output = this.#branch!;
      return {
        output,
        finish: { kind: 'store' },
        after: [await this.addNormed(output, outputNorm, scale, next)],
      };
    }
    const emits = this.#emits(next);
    const finish: CombineFinish = emits ? { kind: 'emit', scale, ...emits } : { kind: 'add', scale };
    return { output: this.hidden, finish, after: [] };
  }

  /** Adds the norm of `branch` [rows, columns] to the stream, and leaves the next norm its input. */
  addNormed(
    branch: GPUBuffer,
    { gain }: NormWeights,
    scale: number,
    next: NormWeights | undefined,
  ): Promise<RowsKernel> {
    const { step, hidden, columns } = this;
    const shape = { columns, epsilon: this.norm.epsilon, scale };
    return AddNormed.create(this.#gpu, shape, { step, branch, weight: gain, hidden, next: this.#emits(next) });
  }

  /** What leaves a norm its input where what wrote the stream did not; nothing where it needs none. */
  enter(next: NormWeights | undefined): Promise<RowsKernel>[] {
    const emits = this.#emits(next);
    if (!emits) return [];
    return [NormInput.create(this.#gpu, this.columns, { step: this.step, input: this.hidden, ...emits })];
  }

  #emits(next: NormWeights | undefined): { gain: GPUBuffer; scaled: GPUBuffer; squares: GPUBuffer } | undefined {
    if (!next || this.norm.kind !== 'rms') return undefined;
    return { gain: next.gain, scaled: this.scaled, squares: this.squares };
  }
}

interface StreamBuffers {
  readonly hidden: GPUBuffer;
  readonly scaled: GPUBuffer;
  readonly squares: GPUBuffer;
  readonly normed: GPUBuffer | undefined;
  readonly branch: GPUBuffer | undefined;
}
