import type { ModelConfig } from '../checkpoint/model-config.ts';
import type { DecoderConfig } from './decoder-config.ts';

/** A matrix [rows, columns] of a checkpoint, or a stretch of one's rows where files have several in one. */
export interface MatrixName {
  readonly tensor: string;
  /** The tensor has more rows, and these begin at `first` of `of`. */
  readonly stretch?: { readonly first: number; readonly of: number };
  /** The file holds it as [columns, rows] (GPT-2's Conv1D); a stretch is of these rows then all the same. */
  readonly transposed?: boolean;
}

/** Weights and bias of a product; the bias is there where the config says so, a stretch of its tensor where fused. */
export interface ProductName {
  readonly weight: MatrixName;
  readonly bias?: { readonly tensor: string; readonly stretch?: { readonly first: number; readonly of: number } };
}

/** Tensor of a norm's weights, and of its bias (LayerNorm). */
export interface NormName {
  readonly weight: string;
  readonly bias?: string;
}

export type FeedForwardNames =
  | { readonly kind: 'gated'; readonly gate: ProductName; readonly up: ProductName; readonly down: ProductName }
  | { readonly kind: 'plain'; readonly up: ProductName; readonly down: ProductName }
  | {
      readonly kind: 'experts';
      readonly router: MatrixName;
      /** Of each expert; a stacked tensor's stretches where files have all experts in one. */
      readonly experts: readonly { readonly gate: MatrixName; readonly up: MatrixName; readonly down: MatrixName }[];
    };

/** Tensors of one layer. */
export interface LayerNames {
  readonly query: ProductName;
  readonly key: ProductName;
  readonly value: ProductName;
  readonly attentionOutput: ProductName;
  /** Where the config has qkNorm: [headSize] each, or of `row` [heads · headSize] and [kvHeads · headSize]. */
  readonly queryNorm?: NormName;
  readonly keyNorm?: NormName;
  /** Of norms `before` and `both`. */
  readonly attentionNorm?: NormName;
  readonly feedForwardNorm?: NormName;
  /** Of norms `after` and `both`. */
  readonly attentionOutputNorm?: NormName;
  readonly feedForwardOutputNorm?: NormName;
  readonly feedForward: FeedForwardNames;
}

/** What a decoder's tensors are called. */
export interface DecoderNames {
  readonly embedding: MatrixName;
  /** [learnedPositions, hiddenSize] */
  readonly positions?: MatrixName;
  readonly finalNorm: NormName;
  /** Not read where the head is tied. */
  readonly head: MatrixName;
  layer(index: number): LayerNames;
}

/** One family of decoders: what its config.json means and what its tensors are called. */
export interface Architecture {
  /** As config.json's architectures has them. */
  readonly names: readonly string[];
  /** What tensorNames' names begin with, but for the head's; files of a model without its head may leave it out. */
  readonly prefix: string;
  /** Tensors of released files that hold nothing of the model, such as masks, by their whole names. */
  readonly buffers?: RegExp;
  /** Throws CheckpointError naming the key, also for a setting that it doesn't know. */
  readConfig(config: ModelConfig): DecoderConfig;
  tensorNames(config: DecoderConfig): DecoderNames;
}
