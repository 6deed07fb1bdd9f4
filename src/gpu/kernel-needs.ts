import type { AttentionShape } from './attention.ts';
import type { EmbeddingOf } from './embedding.ts';
import type { LinearPartShape } from './linear-choice.ts';
import type { LinearForm } from './linear-variant.ts';
import type { MatrixFormat } from './weight-format.ts';

/** A product that a step computes: of a part of a matrix, in a form. */
export interface ProductNeed {
  readonly part: LinearPartShape;
  readonly form: LinearForm;
  /** How often a step of the model computes it. */
  readonly uses: number;
  /** Most columns it is computed of at once; absent: a whole step's rows. */
  readonly mostColumns?: number;
}

/** Which kernels a model's steps run, as far as its files tell before a weight is read. */
export interface KernelNeeds {
  readonly products: readonly ProductNeed[];
  /** Layers differ in the window alone, which kernels are told. */
  readonly attention: AttentionShape;
  readonly embeddings: readonly EmbeddingNeed[];
  /** Undefined: nothing is drawn. */
  readonly vocabulary: number | undefined;
  readonly rows: readonly RowKernel[];
  /** Of mixtures of experts. */
  readonly experts?: ExpertsNeed;
}

/** What kernels mixtures of experts run. */
export interface ExpertsNeed {
  /** Experts, and how many a row goes to. */
  readonly routes: readonly { readonly experts: number; readonly chosen: number }[];
  /** Of the experts' matrices. */
  readonly parts: readonly LinearPartShape[];
  /** What these are where scales turn out not to be halves. */
  readonly wider: readonly LinearPartShape[];
}

/** Of a part of an embedding matrix. */
export interface EmbeddingNeed {
  readonly format: MatrixFormat;
  /** Of encoders, ids with their places and types. */
  readonly of: EmbeddingOf | 'encoder rows';
}

/** Kernels that go over rows of activations, beside products. */
export const ROW_KERNELS = [
  'rms-norm',
  'layer-norm',
  'norm-input',
  'add-normed',
  // Where q, k, v of some layer don't come out of their product rotated: without a norm of q and k, and with either.
  'rope',
  'rope head norm',
  'rope row norm',
  // Likewise where an activation isn't the product's finish.
  'activate-rows',
  // Of LoRA adapters.
  'low-rank',
  'pool',
] as const;

export type RowKernel = (typeof ROW_KERNELS)[number];

/** Names what is chosen for: products of one key get one choice. */
export function productKey({ tiles, columns, format }: LinearPartShape, form: LinearForm): string {
  return `${formName(form)} ${format} ${tiles}x${columns}`;
}

export function formName({ finish, normed }: LinearForm): string {
  return normed ? `normed ${finish}` : finish;
}
