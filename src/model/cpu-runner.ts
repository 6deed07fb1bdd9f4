import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { ModelConfig } from '../checkpoint/model-config.ts';
import { attentionReference } from '../gpu/attention.reference.ts';
import { embeddingReference } from '../gpu/embedding.reference.ts';
import { KvPool } from '../gpu/kv-pool.reference.ts';
import { linearReference } from '../gpu/linear.reference.ts';
import { type LogitsEntry, stepWords } from '../gpu/pack-step.ts';
import { rmsNormReference } from '../gpu/rms-norm.reference.ts';
import { ropeReference } from '../gpu/rope.reference.ts';
import { ropeTable } from '../gpu/rope-table.ts';
import { hasNonFinite, logprobsReference, orderReference, sampleReference } from '../gpu/sampler.reference.ts';
import { swigluReference } from '../gpu/swiglu.reference.ts';
import { type CpuLayerWeights, type CpuWeights, loadCpuWeights } from './cpu-weights.ts';
import { type KvRequest, poolBlocks } from './kv-layout.ts';
import { type LlamaConfig, llamaConfig } from './llama-config.ts';
import { type LoadOptions, llamaKvGroups, runnerLimits } from './load-llama.ts';
import { BLOCK_TOKENS, type Runner, type RunnerLimits, type SampledRow, type StepBatch } from './runner.ts';
import { encodeStep } from './step-metadata.ts';

/** A row of a step with all that a layer needs to know of it. */
interface Row {
  readonly position: number;
  readonly blockTable: ArrayLike<number>;
  readonly hidden: Float32Array;
}

/**
 * The reference runner: the kernels' CPU references behind the interface of the GPU's, with the same checks, block
 * tables and KV contents. Slow and plain; it stands behind the engine in property tests with a tiny model.
 */
export class CpuRunner implements Runner {
  readonly limits: RunnerLimits;
  readonly weightBytes: number;
  readonly kvBytes: number;
  readonly #config: LlamaConfig;
  readonly #weights: CpuWeights;
  readonly #kv: readonly KvPool[];
  readonly #table: Float32Array;
  readonly #lastIds: Uint32Array;
  readonly #words: Uint32Array<ArrayBuffer>;
  #destroyed = false;

  private constructor(config: LlamaConfig, weights: CpuWeights, limits: RunnerLimits) {
    this.#config = config;
    this.#weights = weights;
    this.limits = limits;
    const { kvHeads, headSize } = config;
    this.#kv = weights.layers.map(() => new KvPool(limits.blocks, kvHeads, headSize));
    const positions = Math.min(limits.contextLength, limits.blocks * BLOCK_TOKENS);
    this.#table = ropeTable(positions, headSize, config.ropeTheta);
    this.#lastIds = new Uint32Array(limits.maxSequences);
    const maxTableBlocks = Math.ceil(positions / BLOCK_TOKENS);
    this.#words = new Uint32Array(
      stepWords({ ...limits, maxCopies: limits.maxSequences, maxTableBlocks, splitItems: 0 }),
    );
    this.kvBytes = this.#kv.reduce((sum, pool) => sum + pool.values.byteLength, 0);
    this.weightBytes = bytesOf(weights);
  }

  /** Loads a Llama checkpoint. Throws as loadLlama does. */
  static async load(
    checkpoint: Checkpoint,
    modelConfig: ModelConfig,
    options: Omit<LoadOptions, 'bindingLimit' | 'onProgress'> & KvRequest,
  ): Promise<CpuRunner> {
    const config = llamaConfig(modelConfig);
    const blocks = poolBlocks(llamaKvGroups(config), options, Number.POSITIVE_INFINITY);
    const limits = runnerLimits(config, options, blocks);
    return new CpuRunner(config, await loadCpuWeights(checkpoint, config), limits);
  }

  get allocatedBytes(): number {
    return this.#destroyed ? 0 : this.weightBytes + this.kvBytes;
  }

  /** See Runner. Rejects with StepError where the batch breaks a limit. */
  async step(batch: StepBatch): Promise<SampledRow[]> {
    const rows: SampledRow[] = [];
    for (let i = 0; i < (batch.repeat ?? 1); i++) {
      const { entries, logits } = this.#run(i === 0 ? batch : advanced(batch, i));
      rows.push(...entries.map((entry, j) => sampledRow(entry, logits[j]!, this.#keep(entry, logits[j]!))));
    }
    return rows;
  }

  /** Runs `batch` and gives the raw logits of its logits rows, [vocabulary] each. */
  async logits(batch: StepBatch): Promise<Float32Array[]> {
    const { entries, logits } = this.#run(batch);
    entries.forEach((entry, i) => {
      this.#keep(entry, logits[i]!);
    });
    return logits;
  }

  destroy(): void {
    this.#destroyed = true;
  }

  /** The id of a row, which its slot keeps. */
  #keep(entry: LogitsEntry, logits: Float32Array): number {
    const id = sampleReference(logits, entry, entry.outputPosition);
    if (entry.writesSlot) this.#lastIds[entry.slot] = id;
    return id;
  }

  #run(batch: StepBatch): { entries: readonly LogitsEntry[]; logits: Float32Array[] } {
    if (this.#destroyed) throw new Error('the runner was destroyed');
    const { logits: entries } = encodeStep(this.#words, batch, this.limits, 0);
    for (const { from, to } of batch.copies ?? []) for (const kv of this.#kv) kv.copyBlock(from, to);
    const rows = this.#embed(batch);
    this.#weights.layers.forEach((layer, i) => {
      this.#layer(layer, this.#kv[i]!, rows);
    });
    const { finalNorm, head } = this.#weights;
    const { normEpsilon, vocabSize } = this.#config;
    const logits = entries.map((entry) =>
      linearReference(head, vocabSize, rmsNormReference(rows[entry.row]!.hidden, finalNorm, normEpsilon)),
    );
    return { entries, logits };
  }

  #embed(batch: StepBatch): Row[] {
    return batch.sequences.flatMap(({ slot, tokens, startPosition, blockTable }) =>
      Array.from(tokens === 'slot' ? [this.#lastIds[slot]!] : tokens, (id, i) => ({
        position: startPosition + i,
        blockTable,
        hidden: embeddingReference(this.#weights.embedding, this.#config.hiddenSize, id),
      })),
    );
  }

  /** One layer over all rows: K and V of every row are written before any row attends. */
  #layer(layer: CpuLayerWeights, kv: KvPool, rows: readonly Row[]): void {
    const { hiddenSize, intermediateSize, normEpsilon } = this.#config;
    const queries = rows.map((row) => this.#project(layer, kv, row));
    rows.forEach((row, i) => {
      add(row.hidden, linearReference(layer.attentionOutput, hiddenSize, this.#attend(kv, row, queries[i]!)));
      const normed = rmsNormReference(row.hidden, layer.feedForwardNorm, normEpsilon);
      const gated = swigluReference(linearReference(layer.gateUp, 2 * intermediateSize, normed));
      add(row.hidden, linearReference(layer.down, hiddenSize, gated));
    });
  }

  /** Writes a row's K and V into the pool; gives its rotated query heads. */
  #project(layer: CpuLayerWeights, kv: KvPool, { hidden, position, blockTable }: Row): Float32Array[] {
    const { heads, kvHeads, headSize, normEpsilon } = this.#config;
    const normed = rmsNormReference(hidden, layer.attentionNorm, normEpsilon);
    const qkv = linearReference(layer.qkv, (heads + 2 * kvHeads) * headSize, normed);
    const head = (h: number) => qkv.slice(h * headSize, (h + 1) * headSize);
    for (let h = 0; h < kvHeads; h++) {
      kv.at('key', blockTable, position, h).set(ropeReference(head(heads + h), this.#table, position));
      kv.at('value', blockTable, position, h).set(head(heads + kvHeads + h));
    }
    return Array.from({ length: heads }, (_, h) => ropeReference(head(h), this.#table, position));
  }

  #attend(kv: KvPool, { position, blockTable }: Row, queries: readonly Float32Array[]): Float32Array {
    const { heads, kvHeads, headSize } = this.#config;
    const attended = new Float32Array(heads * headSize);
    queries.forEach((query, h) => {
      const kvHead = Math.floor(h / (heads / kvHeads));
      attended.set(attentionReference(kv, { query, kvHead, blockTable, first: 0, end: position + 1 }), h * headSize);
    });
    return attended;
  }
}

/** The `steps`th decode step of a repeated one. */
function advanced({ sequences, logits }: StepBatch, steps: number): StepBatch {
  return {
    sequences: sequences.map((s) => ({ ...s, tokens: 'slot', startPosition: s.startPosition + steps })),
    logits: logits.map((row) => ({ ...row, outputPosition: row.outputPosition + steps })),
  };
}

function sampledRow(entry: LogitsEntry, logits: Float32Array, id: number): SampledRow {
  const row: SampledRow = { id, nonFinite: hasNonFinite(logits) };
  if (!entry.logprob && entry.top === 0) return row;
  const logprobs = logprobsReference(logits, entry.temperature);
  const logprob = entry.logprob ? { logprob: Math.fround(logprobs[id]!) } : {};
  if (entry.top === 0) return { ...row, ...logprob };
  const ids = orderReference(logits).slice(0, entry.top);
  return { ...row, ...logprob, top: { ids, logprobs: Float32Array.from(ids, (one) => logprobs[one]!) } };
}

function add(into: Float32Array, values: Float32Array): void {
  for (let i = 0; i < into.length; i++) into[i]! += values[i]!;
}

function bytesOf(weights: CpuWeights): number {
  const arrays = [weights.embedding, weights.finalNorm, ...weights.layers.flatMap((layer) => Object.values(layer))];
  if (weights.head !== weights.embedding) arrays.push(weights.head);
  return arrays.reduce((sum: number, array: Float32Array) => sum + array.byteLength, 0);
}
