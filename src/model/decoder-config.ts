import type { Activation } from '../gpu/activation.ts';

/** A norm of rows: root mean square, or mean and variance with a bias (LayerNorm). */
export interface NormConfig {
  readonly kind: 'rms' | 'layer';
  readonly epsilon: number;
  /** Added to the weights that files hold: Gemma's norms multiply by 1 + w. */
  readonly gainOffset: 0 | 1;
}

/** A rotary embedding: what rope tables are made from. */
export interface RopeConfig {
  /** Numbers of a head that are rotated: the first ones; half of them with the other half. */
  readonly rotated: number;
  /** [rotated / 2]: radians a position, as float32. */
  readonly frequencies: Float32Array;
  /** Multiplies cos and sin: yarn's and longrope's attention factor, else 1. */
  readonly factor: number;
}

export interface AttentionConfig {
  readonly heads: number;
  /** Divides `heads`. */
  readonly kvHeads: number;
  /** Numbers of a head; four divides it. */
  readonly headSize: number;
  /** Multiplies the products of query and key. */
  readonly scale: number;
  /** Keys a position sees, itself included; absent: all before it. */
  readonly window?: number;
  /** Scores become cap · tanh(score / cap). */
  readonly cap?: number;
  /** Index into the model's ropes; absent: queries and keys aren't rotated. */
  readonly rope?: number;
  /** RMS norm of queries and keys before rope: each head by itself, or all heads of a row together. */
  readonly qkNorm?: 'head' | 'row';
  readonly qkvBias: boolean;
  readonly outputBias: boolean;
}

export type FeedForwardConfig =
  | {
      /** down(activation(gate x) · up x) */
      readonly kind: 'gated';
      readonly size: number;
      readonly activation: Activation;
      readonly bias: boolean;
    }
  | {
      /** down(activation(up x)) */
      readonly kind: 'plain';
      readonly size: number;
      readonly activation: Activation;
      readonly bias: boolean;
    }
  | {
      /** Of the router's softmax the `chosen` best experts, each gated, weighed by their probabilities. */
      readonly kind: 'experts';
      readonly experts: number;
      readonly chosen: number;
      /** Of one expert. */
      readonly size: number;
      readonly activation: Activation;
      /** The chosen ones' probabilities are divided by their sum. */
      readonly normalised: boolean;
    };

/** A mixture of experts. */
export type ExpertsConfig = Extract<FeedForwardConfig, { readonly kind: 'experts' }>;

export interface DecoderLayerConfig {
  readonly attention: AttentionConfig;
  readonly feedForward: FeedForwardConfig;
  /** Where norms stand around attention and feed-forward network: on their input, on their output, or on both. */
  readonly norms: 'before' | 'after' | 'both';
  /** Multiplies what attention and feed-forward network add to the residual stream. */
  readonly residualScale: number;
}

/** The numbers of a decoder, whatever its family: all that its forward step has to know. */
export interface DecoderConfig {
  /** Class name of the reference implementation, such as LlamaForCausalLM. */
  readonly architecture: string;
  readonly vocabSize: number;
  readonly contextLength: number;
  readonly hiddenSize: number;
  /** Multiplies the embeddings of ids; not those that are given. */
  readonly embeddingScale: number;
  /** Rows of a learned position embedding that is added to the embedding (GPT-2); absent: none. */
  readonly learnedPositions?: number;
  readonly norm: NormConfig;
  readonly ropes: readonly RopeConfig[];
  readonly layers: readonly DecoderLayerConfig[];
  /** Multiplies the logits. */
  readonly logitsScale: number;
  /** Then they become cap · tanh(logit / cap). */
  readonly logitsCap?: number;
  /** The head is the embedding matrix. */
  readonly tiedHead: boolean;
}
