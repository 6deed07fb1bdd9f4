import code from '../../shaders/embedding.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { squaresWords } from './norm-input.ts';
import { rowWords } from './row-words.ts';
import { expandTemplate } from './template.ts';
import { type MatrixFormat, matrixLayout, wordsOfRow } from './weight-format.ts';
import type { WeightMatrix } from './weight-matrix.ts';

export interface EmbeddingBuffers {
  /** Metadata of the step. */
  readonly step: GPUBuffer;
  /** [maxSequences] u32. */
  readonly lastIds: GPUBuffer;
  /** [maxRows, columns padded to 4] f32. */
  readonly output: GPUBuffer;
  /** Where the first norm's product finds its input; see NormInputBuffers. */
  readonly norm?: { readonly gain: GPUBuffer; readonly scaled: GPUBuffer; readonly squares: GPUBuffer };
}

/** What a row is embedded by: its token, into the output; or its position, which is added to the output. */
export type EmbeddingOf = 'tokens' | 'tokens with norm' | 'positions';

export interface EmbeddingShape {
  /** Multiplies the matrix; default: 1. */
  readonly scale?: number;
  /** Of positions; default: of tokens. */
  readonly positions?: boolean;
}

/** Rows of an embedding matrix by the step's tokens or positions; see shaders/embedding.wgsl. */
export class Embedding {
  readonly #columns: number;
  readonly #words: number;
  /** Threads of a row. */
  readonly #lanes: number;
  readonly #parts: readonly { kernel: Kernel; group: GPUBindGroup }[];
  readonly #output: GPUBuffer;
  readonly #queue: GPUQueue;

  private constructor(
    gpu: Gpu,
    columns: number,
    lanes: number,
    parts: readonly { kernel: Kernel; group: GPUBindGroup }[],
    output: GPUBuffer,
  ) {
    this.#queue = gpu.device.queue;
    this.#columns = columns;
    this.#words = rowWords(columns);
    this.#lanes = lanes;
    this.#parts = parts;
    this.#output = output;
  }

  /** Compiles what a matrix with parts of this format will ask for, so that it needn't wait for the weights. */
  static async compile(gpu: Gpu, format: MatrixFormat, of: EmbeddingOf): Promise<void> {
    await compileEmbedding(gpu, format, of);
  }

  /** Throws RangeError where the norm's input is asked for of positions. */
  static async create(
    gpu: Gpu,
    matrix: WeightMatrix,
    buffers: EmbeddingBuffers,
    { scale = 1, positions = false }: EmbeddingShape = {},
  ): Promise<Embedding> {
    const words = rowWords(matrix.columns);
    const { norm } = buffers;
    if (norm && positions) throw new RangeError('positions leave no norm its input');
    const of = positions ? 'positions' : norm ? 'tokens with norm' : 'tokens';
    const lanes = norm ? 4 * squaresWords(matrix.columns) : words;
    const parts = await Promise.all(
      matrix.parts.map(async (part) => {
        const kernel = await compileEmbedding(gpu, part.format, of);
        const [weights, ...scales] = part.planes;
        const group = await kernel.bind(
          [
            ...[part.firstRow, part.rows, matrix.columns, words, wordsOfRow(part.format, matrix.columns), lanes],
            { f32: scale },
          ],
          [
            ...[buffers.step, weights!, buffers.lastIds, buffers.output],
            ...(norm ? [norm.gain, norm.scaled, norm.squares] : []),
            ...scales,
          ],
        );
        return { kernel, group };
      }),
    );
    return new Embedding(gpu, matrix.columns, lanes, parts, buffers.output);
  }

  /**
   * Writes rows of the output, [rows, columns] from `row` on, which a step with TOKEN_EMBEDDED rows submitted next finds
   * there.
   */
  give(row: number, embeddings: Float32Array): void {
    const stride = this.#words * 4;
    const padded = new Float32Array((embeddings.length / this.#columns) * stride);
    for (let i = 0; i * this.#columns < embeddings.length; i++) {
      padded.set(embeddings.subarray(i * this.#columns, (i + 1) * this.#columns), i * stride);
    }
    this.#queue.writeBuffer(this.#output, row * stride * 4, padded);
  }

  encode(pass: GPUComputePassEncoder, rows: number): void {
    for (const { kernel, group } of this.#parts) kernel.dispatchThreads(pass, group, rows * this.#lanes);
  }
}

export function compileEmbedding(gpu: Gpu, format: MatrixFormat, of: EmbeddingOf): Promise<Kernel> {
  const layout = matrixLayout(format);
  const norm = of === 'tokens with norm';
  const normed = norm ? (['read', 'write', 'write'] as const) : [];
  const counts = {
    ...{ NORM_INPUT: norm ? 1 : 0, PLAIN: of === 'tokens' ? 1 : 0 },
    ...{ POSITIONS: of === 'positions' ? 1 : 0, TOKENS: of === 'positions' ? 0 : 1 },
  };
  return Kernel.compile(gpu, {
    name: `embedding ${format}`,
    code: [stepCode, ...layout.code, expandTemplate(code, counts)],
    constants: { ...layout.constants, SCALES_BINDING: 5 + normed.length },
    bindings: [
      ...(['uniform', 'read', 'read', 'read', 'write'] as const),
      ...normed,
      ...layout.planes.slice(1).map(() => 'read' as const),
    ],
  });
}
