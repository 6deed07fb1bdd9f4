import type { AttentionShape } from './attention.ts';
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
  readonly attention: AttentionShape;
  /** Formats of the embedding's parts. */
  readonly embeddings: readonly MatrixFormat[];
  readonly vocabulary: number;
  /** q, k, v of some layer can't be paired: rotary embedding has a kernel of its own. */
  readonly rope: boolean;
  /** Likewise gate and up. */
  readonly swiglu: boolean;
}

/** Names what is chosen for: products of one key get one choice. */
export function productKey({ tiles, columns, format }: LinearPartShape, form: LinearForm): string {
  return `${formName(form)} ${format} ${tiles}x${columns}`;
}

export function formName({ finish, normed }: LinearForm): string {
  return normed ? `normed ${finish}` : finish;
}
