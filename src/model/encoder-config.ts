import type { Activation } from '../gpu/activation.ts';

/** What an encoder's first position becomes: dense, tanh, and what sums that up, one logit a class. */
export interface ClassifierConfig {
  /** Names of the classes, in the order of the logits. */
  readonly labels: readonly string[];
}

/** The numbers of an encoder of the BERT family: all that its forward step has to know. */
export interface EncoderConfig {
  /** Class name of the reference implementation, such as BertModel. */
  readonly architecture: string;
  readonly vocabSize: number;
  /** Ids of one sequence at most. */
  readonly contextLength: number;
  readonly hiddenSize: number;
  readonly layers: number;
  readonly heads: number;
  /** Numbers of a head; four divides it. */
  readonly headSize: number;
  readonly intermediateSize: number;
  readonly activation: Exclude<Activation, 'silu'>;
  /** Of all norms, which are LayerNorms with weights and bias. */
  readonly normEpsilon: number;
  /** Rows of the position embedding. */
  readonly positions: number;
  /**
   * An id's position is this id and one for each other id up to it, and this id's own is itself (RoBERTa's padding);
   * absent: its place in the sequence.
   */
  readonly positionPad?: number;
  /** Rows of the token type embedding. */
  readonly tokenTypes: number;
  readonly classifier?: ClassifierConfig;
}
