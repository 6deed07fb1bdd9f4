import { activationReference } from '../gpu/activation.reference.ts';
import { attentionReference } from '../gpu/attention.reference.ts';
import { embeddingReference } from '../gpu/embedding.reference.ts';
import { KvPool } from '../gpu/kv-pool.reference.ts';
import { linearReference } from '../gpu/linear.reference.ts';
import { lowRankReference } from '../gpu/low-rank-update.reference.ts';
import { rmsNormReference } from '../gpu/rms-norm.reference.ts';
import { ropeReference } from '../gpu/rope.reference.ts';
import { ropeTable } from '../gpu/rope-table.ts';
import type { CpuLayerWeights, CpuWeights } from './cpu-weights.ts';
import { type KvGroup, kvGroupOf } from './kv-layout.ts';
import type { PlainDecoder } from './plain-decoder.ts';
import type { LayerUpdates, SiteUpdates } from './read-adapter.ts';
import type { StepBatch } from './runner.ts';

/** A row of a step with all that a layer needs to know of it. */
interface Row {
  readonly position: number;
  /** Of each KV group. */
  readonly tables: readonly ArrayLike<number>[];
  readonly hidden: Float32Array;
  /** By layer. */
  readonly adapter: readonly LayerUpdates[] | undefined;
}

/** Llama's forward step from the kernels' CPU references, with KV pools of its own: the reference of Llama, and of Mistral. */
export class CpuLlama {
  readonly weightBytes: number;
  readonly kvBytes: number;
  readonly #config: PlainDecoder;
  readonly #weights: CpuWeights;
  readonly #kv: readonly KvPool[];
  /** Of each layer: its KV group. */
  readonly #groups: readonly number[];
  readonly #table: Float32Array;
  /** By slot. */
  readonly #adapters = new Map<number, readonly LayerUpdates[]>();

  /** `blocks` of each KV group; `positions` that there can be. */
  constructor(
    config: PlainDecoder,
    weights: CpuWeights,
    groups: readonly KvGroup[],
    blocks: readonly number[],
    positions: number,
  ) {
    this.#config = config;
    this.#weights = weights;
    this.#groups = weights.layers.map((_, i) => kvGroupOf(groups, i));
    this.#kv = this.#groups.map((group) => new KvPool(blocks[group]!, config.kvHeads, config.headSize));
    this.#table = ropeTable(positions, config.rope);
    this.kvBytes = this.#kv.reduce((sum, pool) => sum + pool.values.byteLength, 0);
    this.weightBytes = bytesOf(weights);
  }

  /** Puts an adapter into `slot`, layer by layer. */
  setAdapter(slot: number, layers: readonly LayerUpdates[]): void {
    this.#adapters.set(slot, layers);
  }

  /** Hidden states of the batch's rows before the final norm; `lastIds`: what each slot drew last. */
  forward(batch: StepBatch, lastIds: Uint32Array): Float32Array[] {
    for (const copy of batch.copies ?? []) {
      const pairs = [copy, ...(copy.more ?? [])];
      this.#kv.forEach((kv, i) => {
        const { from, to } = pairs[this.#groups[i]!]!;
        kv.copyBlock(from, to);
      });
    }
    const rows = this.#embed(batch, lastIds);
    this.#weights.layers.forEach((layer, i) => {
      this.#layer(layer, i, rows);
    });
    return rows.map(({ hidden }) => hidden);
  }

  /** Makes all that reads blocks of a KV group before they are written give NaN: for tests. */
  spoil(group: number, blocks: readonly number[]): void {
    this.#kv.forEach((kv, i) => {
      if (this.#groups[i] === group) for (const block of blocks) kv.fillBlock(block, Number.NaN);
    });
  }

  /** The final norm of a hidden state. */
  finish(hidden: Float32Array): Float32Array {
    return rmsNormReference(hidden, this.#weights.finalNorm, this.#config.normEpsilon);
  }

  /** Logits of a normed hidden state. */
  head(normed: Float32Array): Float32Array {
    return linearReference(this.#weights.head, this.#config.vocabSize, normed);
  }

  #embed(batch: StepBatch, lastIds: Uint32Array): Row[] {
    const { hiddenSize } = this.#config;
    return batch.sequences.flatMap(({ slot, tokens, startPosition, blockTable, moreTables = [], adapter: of }) => {
      const tables = [blockTable, ...moreTables];
      const adapter = of === undefined ? undefined : this.#adapters.get(of);
      const given = tokens !== 'slot' && 'embeddings' in tokens;
      const ids = tokens === 'slot' ? [lastIds[slot]!] : given ? [] : Array.from(tokens);
      const hidden = given
        ? Array.from({ length: tokens.embeddings.length / hiddenSize }, (_, i) =>
            embeddingReference(tokens.embeddings, hiddenSize, i),
          )
        : ids.map((id) => embeddingReference(this.#weights.embedding, hiddenSize, id));
      return hidden.map((values, i) => ({ position: startPosition + i, tables, hidden: values, adapter }));
    });
  }

  /** One layer over all rows: K and V of every row are written before any row attends. */
  #layer(layer: CpuLayerWeights, index: number, rows: readonly Row[]): void {
    const { hiddenSize, intermediateSize, normEpsilon } = this.#config;
    const queries = rows.map((row) => this.#project(layer, index, row));
    rows.forEach((row, i) => {
      const adapter = row.adapter?.[index];
      const attended = this.#attend(index, row, queries[i]!);
      add(row.hidden, linearReference(layer.attentionOutput, hiddenSize, attended));
      addUpdates(row.hidden, attended, adapter?.attentionOutput, [0]);
      const normed = rmsNormReference(row.hidden, layer.feedForwardNorm, normEpsilon);
      const gateUp = linearReference(layer.gateUp, 2 * intermediateSize, normed);
      addUpdates(gateUp, normed, adapter?.up, [0, intermediateSize]);
      const gated = gateUp
        .slice(0, intermediateSize)
        .map((gate, column) => activationReference('silu', gate) * gateUp[intermediateSize + column]!);
      add(row.hidden, linearReference(layer.down, hiddenSize, gated));
      addUpdates(row.hidden, gated, adapter?.down, [0]);
    });
  }

  /** Writes a row's K and V into the pool; gives its rotated query heads. */
  #project(layer: CpuLayerWeights, index: number, { hidden, position, tables, adapter }: Row): Float32Array[] {
    const { heads, kvHeads, headSize, normEpsilon } = this.#config;
    const kv = this.#kv[index]!;
    const blockTable = tables[this.#groups[index]!]!;
    const normed = rmsNormReference(hidden, layer.attentionNorm, normEpsilon);
    const qkv = linearReference(layer.qkv, (heads + 2 * kvHeads) * headSize, normed);
    addUpdates(qkv, normed, adapter?.[index]?.qkv, [0, heads * headSize, (heads + kvHeads) * headSize]);
    const head = (h: number) => qkv.slice(h * headSize, (h + 1) * headSize);
    for (let h = 0; h < kvHeads; h++) {
      kv.at('key', blockTable, position, h).set(ropeReference(head(heads + h), this.#table, position));
      kv.at('value', blockTable, position, h).set(head(heads + kvHeads + h));
    }
    return Array.from({ length: heads }, (_, h) => ropeReference(head(h), this.#table, position));
  }

  #attend(index: number, { position, tables }: Row, queries: readonly Float32Array[]): Float32Array {
    const { heads, kvHeads, headSize, windows } = this.#config;
    const kv = this.#kv[index]!;
    const blockTable = tables[this.#groups[index]!]!;
    const first = Math.max(0, position + 1 - (windows[index] ?? Number.POSITIVE_INFINITY));
    const attended = new Float32Array(heads * headSize);
    queries.forEach((query, h) => {
      const kvHead = Math.floor(h / (heads / kvHeads));
      attended.set(attentionReference(kv, { query, kvHead, blockTable, first, end: position + 1 }), h * headSize);
    });
    return attended;
  }
}

function add(into: Float32Array, values: Float32Array): void {
  for (let i = 0; i < values.length; i++) into[i]! += values[i]!;
}

/** Adds what an adapter makes of a product's input x, each module's from its own output on. */
function addUpdates(
  product: Float32Array,
  x: Float32Array,
  updates: SiteUpdates | undefined,
  firsts: readonly number[],
): void {
  updates?.forEach((update, module) => {
    if (update) add(product.subarray(firsts[module]!), lowRankReference(update, x));
  });
}

function bytesOf(weights: CpuWeights): number {
  const arrays = [weights.embedding, weights.finalNorm, ...weights.layers.flatMap((layer) => Object.values(layer))];
  if (weights.head !== weights.embedding) arrays.push(weights.head);
  return arrays.reduce((sum: number, array: Float32Array) => sum + array.byteLength, 0);
}
