import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { ModelConfig } from '../checkpoint/model-config.ts';
import { adjustLogitsReference, MASKED_LOGIT } from '../gpu/adjust-logits.reference.ts';
import { stepWords } from '../gpu/pack-step.ts';
import { hasNonFinite, logprobsReference, orderReference, sampleReference } from '../gpu/sampler.reference.ts';
import { allLayerSites, type LayerSites } from './adapter-sites.ts';
import { CpuLlama } from './cpu-llama.ts';
import { type CpuWeights, loadCpuWeights } from './cpu-weights.ts';
import type { DecoderConfig } from './decoder-config.ts';
import { openDecoder } from './describe-decoder.ts';
import {
  type KvGroup,
  type KvRequest,
  kvGroupLimits,
  kvGroups,
  poolBlocks,
  servedPositions,
  stepCapacity,
} from './kv-layout.ts';
import { type LoadOptions, runnerLimits } from './load-options.ts';
import type { HostEntry } from './logits-entries.ts';
import { checkMasks } from './masks.ts';
import { type PlainDecoder, plainDecoder } from './plain-decoder.ts';
import { type AdapterFiles, largestRank, readAdapter } from './read-adapter.ts';
import type { AdapterTraits, Runner, RunnerLimits, SampledRow, SlotStart, StepBatch } from './runner.ts';
import { PLAIN_SLOT, type SlotTraits } from './slot-traits.ts';
import { isIndex, StepError } from './step-error.ts';
import { encodeStep } from './step-metadata.ts';

export interface CpuLoadOptions {
  /** Windows of the layers, in place of the config's: for tests of layers that differ. */
  readonly windows?: readonly (number | undefined)[];
}

/** What a slot's draws are adjusted by. */
interface SlotState {
  readonly start: SlotStart;
  /** How often each id was drawn. */
  readonly counts: Map<number, number>;
}

/** A row whose logits are there, and what its result will be. */
interface LogitsResult {
  readonly entry: HostEntry;
  /** After the final norm. */
  readonly hidden: Float32Array;
  readonly logits: Float32Array;
}

/** A step that waits for its masks. */
interface PendingStep {
  readonly masked: readonly LogitsResult[];
  readonly rows: SampledRow[];
  readonly settle: (rows: SampledRow[]) => void;
  readonly fail: (error: Error) => void;
}

/**
 * The reference runner: the kernels' CPU references behind the interface of the GPU's, with the same checks, block
 * tables and KV contents. Slow and plain; it stands behind the engine in property tests with a tiny model.
 */
export class CpuRunner implements Runner {
  readonly limits: RunnerLimits;
  readonly weightBytes: number;
  readonly kvBytes: number;
  readonly #model: CpuLlama;
  readonly #lastIds: Uint32Array;
  readonly #words: Uint32Array<ArrayBuffer>;
  readonly #states = new Map<number, SlotState>();
  readonly #sites: readonly LayerSites[];
  #slots: readonly SlotTraits[];
  #pending: PendingStep | undefined;
  #destroyed = false;

  private constructor(
    config: PlainDecoder,
    weights: CpuWeights,
    groups: readonly KvGroup[],
    limits: RunnerLimits,
    sites: readonly LayerSites[],
  ) {
    this.limits = limits;
    this.#sites = sites;
    const positions = servedPositions(limits.kvGroups, limits.contextLength);
    const blocks = limits.kvGroups.map((group) => group.blocks);
    this.#model = new CpuLlama(config, weights, groups, blocks, positions);
    this.#lastIds = new Uint32Array(limits.maxSequences);
    this.#slots = new Array(limits.maxSequences).fill(PLAIN_SLOT);
    this.#words = new Uint32Array(stepWords({ ...stepCapacity(limits), splitItems: 0 }));
    this.kvBytes = this.#model.kvBytes;
    this.weightBytes = this.#model.weightBytes;
  }

  /** Loads a decoder that is like Llama. Throws as loadDecoder does, and CheckpointError of any other. */
  static async load(
    stored: Checkpoint,
    modelConfig: ModelConfig,
    options: Omit<LoadOptions, 'bindingLimit' | 'onProgress'> & KvRequest & CpuLoadOptions,
  ): Promise<CpuRunner> {
    const { config: described, names, checkpoint } = openDecoder(stored, modelConfig);
    const config = withWindows(described, options.windows);
    const plain = plainDecoder(config);
    const groups = kvGroups(config, Math.min(options.contextLength ?? config.contextLength, config.contextLength));
    const blocks = poolBlocks(groups, options, Number.POSITIVE_INFINITY);
    const limits = runnerLimits(config, options, kvGroupLimits(groups, blocks));
    const weights = await loadCpuWeights(checkpoint, config, names);
    return new CpuRunner(plain, weights, groups, limits, allLayerSites(described, names));
  }

  get allocatedBytes(): number {
    return this.#destroyed ? 0 : this.weightBytes + this.kvBytes;
  }

  /** See Runner. Rejects with StepError where the batch breaks a limit. */
  async step(batch: StepBatch): Promise<SampledRow[]> {
    if ((batch.repeat ?? 1) > 1) return this.#repeat(batch);
    const results = this.#run(batch);
    const rows: SampledRow[] = new Array(results.length);
    for (const result of results) {
      if (result.entry.mask === undefined) rows[result.entry.index] = this.#draw(result);
    }
    const masked = results.filter(({ entry }) => entry.mask !== undefined);
    if (masked.length === 0) return rows;
    return new Promise((settle, fail) => {
      this.#pending = { masked, rows, settle, fail };
    });
  }

  drawMasked(masks: readonly (Uint32Array | undefined)[]): void {
    checkMasks(masks, this.#pending?.masked.length ?? 0, this.limits.vocabSize);
    const { masked, rows, settle } = this.#pending!;
    this.#pending = undefined;
    masked.forEach((result, i) => {
      rows[result.entry.index] = this.#draw(result, masks[i]);
    });
    settle(rows);
  }

  /** Runs `batch` and gives the raw logits of its logits rows, [vocabulary] each. */
  async logits(batch: StepBatch): Promise<Float32Array[]> {
    return this.#run(batch).map((result) => {
      if (result.entry.mask !== undefined) throw new StepError('masked rows');
      this.#draw(result);
      return result.logits;
    });
  }

  /** See Runner. */
  async loadAdapter(slot: number, files: AdapterFiles): Promise<AdapterTraits> {
    const { maxAdapters = 0, maxAdapterRank = 0 } = this.limits;
    if (!isIndex(slot, maxAdapters)) throw new StepError(`adapter slot ${slot} is not below ${maxAdapters}`);
    const layers = await readAdapter(files, this.#sites, maxAdapterRank);
    this.#model.setAdapter(slot, layers);
    return { rank: largestRank(layers) };
  }

  /** Makes all that reads blocks of a KV group before they are written give NaN: for tests. */
  spoil(group: number, blocks: readonly number[]): void {
    this.#model.spoil(group, blocks);
  }

  destroy(): void {
    this.#destroyed = true;
    this.#pending?.fail(new Error('the runner was destroyed'));
    this.#pending = undefined;
  }

  #repeat(batch: StepBatch): SampledRow[] {
    // The checks are of all steps at once.
    this.#encode(batch);
    const rows: SampledRow[] = [];
    for (let i = 0; i < batch.repeat!; i++) {
      rows.push(...this.#run(advanced(batch, i)).map((result) => this.#draw(result)));
    }
    return rows;
  }

  /** A row's result; its slot keeps the id and counts it. */
  #draw({ entry, logits, hidden }: LogitsResult, mask?: Uint32Array): SampledRow {
    const adjusted = entry.scored === undefined ? this.#adjust(entry, logits, mask) : logits;
    const nothing = adjusted.every((logit) => logit === MASKED_LOGIT);
    const id = entry.scored ?? (nothing ? 0 : sampleReference(adjusted, entry, entry.outputPosition));
    if (entry.writesSlot) this.#lastIds[entry.slot] = id;
    const state = this.#states.get(entry.slot);
    if (state && entry.scored === undefined && entry.draft === undefined) {
      state.counts.set(id, (state.counts.get(id) ?? 0) + 1);
    }
    return {
      ...sampledRow(entry, adjusted, id, state?.start.logprobIds ?? []),
      ...(entry.hidden ? { hidden } : {}),
      nonFinite: nothing || hasNonFinite(logits),
    };
  }

  #adjust(entry: HostEntry, logits: Float32Array, mask: Uint32Array | undefined): Float32Array {
    if (!entry.adjusted && !mask) return logits;
    const state = this.#states.get(entry.slot);
    if (!state) return adjustLogitsReference(logits, { ...NO_PENALTY, counts: new Map(), bannedIds: [], mask });
    const { start } = state;
    const counts = new Map(state.counts);
    for (const id of entry.guesses ?? []) counts.set(id, (counts.get(id) ?? 0) + 1);
    const bannedIds = entry.outputPosition < start.minNewTokens ? Array.from(start.stopIds) : [];
    return adjustLogitsReference(logits, { ...start, counts, bannedIds, mask });
  }

  #encode(batch: StepBatch) {
    if (this.#destroyed) throw new Error('the runner was destroyed');
    if (this.#pending) throw new StepError("the step before has masked rows that weren't drawn");
    return encodeStep(this.#words, batch, { limits: this.limits, splitItems: 0 }, this.#slots);
  }

  /** The logits rows' results-to-be: those that have no mask first. */
  #run(batch: StepBatch): LogitsResult[] {
    const { logits: entries, slots } = this.#encode(batch);
    this.#slots = slots;
    for (const start of batch.starts ?? []) this.#states.set(start.slot, slotState(start));
    const rows = this.#model.forward(batch, this.#lastIds);
    return entries.map((entry) => {
      const hidden = this.#model.finish(rows[entry.row]!);
      return { entry, hidden, logits: this.#model.head(hidden) };
    });
  }
}

function withWindows(config: DecoderConfig, windows: CpuLoadOptions['windows']): DecoderConfig {
  if (!windows) return config;
  const layers = config.layers.map(({ attention: { window: _, ...attention }, ...layer }, i) => {
    const window = windows[i];
    return { ...layer, attention: window === undefined ? attention : { ...attention, window } };
  });
  return { ...config, layers };
}

const NO_PENALTY = { frequencyPenalty: 0, presencePenalty: 0, repetitionPenalty: 1, biases: [] };

function slotState(start: SlotStart): SlotState {
  const counts = new Map<number, number>();
  for (const id of Array.from(start.outputIds)) counts.set(id, (counts.get(id) ?? 0) + 1);
  return { start, counts };
}

/** The `steps`th decode step of a repeated one. */
function advanced({ sequences, logits, ...rest }: StepBatch, steps: number): StepBatch {
  const first = steps === 0;
  return {
    ...(first ? { ...rest, repeat: 1 } : {}),
    sequences: sequences.map((s) => ({
      ...s,
      tokens: first ? s.tokens : 'slot',
      startPosition: s.startPosition + steps,
    })),
    logits: logits.map((row) => ({ ...row, outputPosition: row.outputPosition + steps })),
  };
}

/** `logprobIds`: of the slot. */
function sampledRow(
  entry: HostEntry,
  logits: Float32Array,
  id: number,
  logprobIds: ArrayLike<number>,
): Omit<SampledRow, 'nonFinite'> {
  if (!entry.logprob && entry.top === 0 && entry.ids === undefined) return { id };
  const logprobs = logprobsReference(logits, entry.temperature);
  const tell = (one: number) => logprobs[one]!;
  const row = entry.logprob ? { id, logprob: Math.fround(tell(id)) } : { id };
  const more = entry.ids === undefined ? {} : { idLogprobs: Float32Array.from(logprobIds, tell) };
  if (entry.top === 0) return { ...row, ...more };
  const ids = orderReference(logits).slice(0, entry.top);
  return { ...row, ...more, top: { ids, logprobs: Float32Array.from(ids, tell) } };
}
