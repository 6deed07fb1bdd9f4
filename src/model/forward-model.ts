import type { AttentionWork } from '../gpu/attention.ts';
import type { AdapterFiles } from './read-adapter.ts';
import type { AdapterTraits } from './runner.ts';

/** A model's forward step in three parts, each encoding into a pass; what a runner drives, whatever the architecture. */
export interface ForwardModel {
  readonly layerCount: number;
  /** Logits rows that the head makes at a time. */
  readonly tileRows: number;
  /** [tileRows, vocabulary] f32: logits of the tile encoded last. */
  readonly logits: GPUBuffer;
  /** [logits rows, hiddenStride] f32: hidden states of the rows finished last. */
  readonly finished: GPUBuffer;
  /** Numbers from one row of hidden states to the next. */
  readonly hiddenStride: number;
  /** Makes the step's copies of KV blocks, in every layer. */
  copyBlocks(pass: GPUComputePassEncoder, copies: number): void;
  /** Hands in embeddings of the next step's rows from `row` on, [rows, hiddenSize]; by the queue, before its submit. */
  giveEmbeddings(row: number, embeddings: Float32Array): void;
  /** Hidden states of the step's rows from its tokens. Rows whose embeddings were given keep these. */
  embed(pass: GPUComputePassEncoder, rows: number): void;
  /** Layers [from, to) over the hidden states; `adapted`: some row has an adapter. */
  layers(
    pass: GPUComputePassEncoder,
    rows: number,
    work: AttentionWork,
    from: number,
    to: number,
    adapted?: boolean,
  ): void;
  /** See Runner. */
  loadAdapter(slot: number, files: AdapterFiles): Promise<AdapterTraits>;
  /** Final norm of the rows whose logits are wanted, as the step's header counts them; the layers' output stays. */
  finish(pass: GPUComputePassEncoder, logitsRows: number): void;
  /** Logits of `rows` logits rows from row tile × tileRows on, into `logits`. */
  head(pass: GPUComputePassEncoder, tile: number, rows: number): void;
}
