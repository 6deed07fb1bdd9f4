import code from '../../shaders/encoder-embedding.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { rowWords } from './row-words.ts';
import { type MatrixFormat, matrixLayout, wordsOfRow } from './weight-format.ts';
import type { WeightMatrix } from './weight-matrix.ts';

/** Words of a row of `rows`. */
export const ENCODER_ROW_WORDS = 4;

export interface EncoderEmbeddingBuffers {
  /** Metadata of the step. */
  readonly step: GPUBuffer;
  /** [maxRows, ENCODER_ROW_WORDS] u32: id, position, token type, unused. */
  readonly rows: GPUBuffer;
  /** [types, columns padded to 4] f32. */
  readonly types: GPUBuffer;
  /** [positions, columns padded to 4] f32. */
  readonly positions: GPUBuffer;
  /** [maxRows, columns padded to 4] f32. */
  readonly output: GPUBuffer;
}

/** The sum of what ids, positions and token types are embedded as; see shaders/encoder-embedding.wgsl. */
export class EncoderEmbedding {
  readonly #words: number;
  readonly #parts: readonly { readonly kernel: Kernel; readonly group: GPUBindGroup }[];

  private constructor(words: number, parts: readonly { readonly kernel: Kernel; readonly group: GPUBindGroup }[]) {
    this.#words = words;
    this.#parts = parts;
  }

  /** Compiles what a matrix with parts of this format will ask for, so that it needn't wait for the weights. */
  static async compile(gpu: Gpu, format: MatrixFormat): Promise<void> {
    await compileEncoderEmbedding(gpu, format);
  }

  /** `matrix`: of the ids. */
  static async create(gpu: Gpu, matrix: WeightMatrix, buffers: EncoderEmbeddingBuffers): Promise<EncoderEmbedding> {
    const words = rowWords(matrix.columns);
    const { step, rows, types, positions, output } = buffers;
    const parts = await Promise.all(
      matrix.parts.map(async (part) => {
        const kernel = await compileEncoderEmbedding(gpu, part.format);
        const [weights, ...scales] = part.planes;
        const group = await kernel.bind(
          [part.firstRow, part.rows, words, wordsOfRow(part.format, matrix.columns)],
          [step, weights!, rows, types, positions, output, ...scales],
        );
        return { kernel, group };
      }),
    );
    return new EncoderEmbedding(words, parts);
  }

  encode(pass: GPUComputePassEncoder, rows: number): void {
    for (const { kernel, group } of this.#parts) kernel.dispatchThreads(pass, group, rows * this.#words);
  }
}

function compileEncoderEmbedding(gpu: Gpu, format: MatrixFormat): Promise<Kernel> {
  const layout = matrixLayout(format);
  return Kernel.compile(gpu, {
    name: `encoder-embedding ${format}`,
    code: [stepCode, ...layout.code, code],
    constants: { ...layout.constants, SCALES_BINDING: 7 },
    bindings: [
      ...(['uniform', 'read', 'read', 'read', 'read', 'read', 'write'] as const),
      ...layout.planes.slice(1).map(() => 'read' as const),
    ],
  });
}
