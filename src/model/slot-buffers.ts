import type { Gpu } from '../gpu/gpu.ts';
import { packBiases, packCounts, packIdSet, packSlot, SLOT_WORDS } from '../gpu/slot-layout.ts';
import { maskWords } from './masks.ts';
import type { RunnerLimits, SlotStart } from './runner.ts';
import { isPenalised, maxCountedIds } from './slot-traits.ts';

/**
 * Slots' state on the GPU: what draws are adjusted by, and the masks of one step. Written by the queue, in order with
 * the submits, where a sequence starts in a slot or a mask comes; not by steps.
 */
export class SlotBuffers {
  /** [maxSequences] u32: the id each slot drew last. */
  readonly lastIds: GPUBuffer;
  /** [maxSequences, SLOT_WORDS] u32. */
  readonly slots: GPUBuffer;
  /** [maxSequences, maxCountedIds, 2] u32: id, count. */
  readonly counted: GPUBuffer;
  /** [maxSequences, maxBiases, 2] u32: id, bits of the bias. */
  readonly biases: GPUBuffer;
  /** [maxSequences, ceil(vocabSize / 32)] u32. */
  readonly stops: GPUBuffer;
  /** [maxSequences, 1 + maxLogprobIds] u32: how many ids, then the ids whose logprobs a slot tells. */
  readonly slotIds: GPUBuffer;
  /** [maxSequences, ceil(vocabSize / 32)] u32. */
  readonly masks: GPUBuffer;
  readonly #queue: GPUQueue;
  readonly #limits: RunnerLimits;
  readonly #everyId: Uint32Array<ArrayBuffer>;

  private constructor(gpu: Gpu, limits: RunnerLimits, buffers: readonly GPUBuffer[]) {
    this.#queue = gpu.device.queue;
    this.#limits = limits;
    const [lastIds, slots, counted, biases, stops, slotIds, masks] = buffers;
    this.lastIds = lastIds!;
    this.slots = slots!;
    this.counted = counted!;
    this.biases = biases!;
    this.stops = stops!;
    this.slotIds = slotIds!;
    this.masks = masks!;
    this.#everyId = new Uint32Array(maskWords(limits.vocabSize)).fill(0xffffffff);
  }

  static async create(gpu: Gpu, limits: RunnerLimits): Promise<SlotBuffers> {
    const words = (label: string, count: number) => gpu.storage(label, limits.maxSequences * count * 4);
    const buffers = await Promise.all([
      words('last ids', 1),
      words('slots', SLOT_WORDS),
      words('counted ids', maxCountedIds(limits) * 2),
      words('biases', limits.maxBiases * 2),
      words('stop ids', maskWords(limits.vocabSize)),
      words('slot ids', 1 + limits.maxLogprobIds),
      words('masks', maskWords(limits.vocabSize)),
    ]);
    return new SlotBuffers(gpu, limits, buffers);
  }

  /** A copy of what draws change, until `restore` puts it back and frees it. Rejects with AllocationError. */
  async save(gpu: Gpu): Promise<{ restore(): void }> {
    const changed = [this.lastIds, this.slots, this.counted];
    const copies: GPUBuffer[] = [];
    const free = () => {
      for (const copy of copies) gpu.buffers.free(copy);
    };
    try {
      for (const { label, size } of changed) copies.push(await gpu.storage(`${label}, saved`, size));
    } catch (error) {
      free();
      throw error;
    }
    const copyAll = (from: readonly GPUBuffer[], to: readonly GPUBuffer[]) => {
      const encoder = gpu.device.createCommandEncoder({ label: 'slots' });
      from.forEach((buffer, i) => {
        encoder.copyBufferToBuffer(buffer, 0, to[i]!, 0, buffer.size);
      });
      gpu.device.queue.submit([encoder.finish()]);
    };
    copyAll(changed, copies);
    return {
      restore: () => {
        copyAll(copies, changed);
        free();
      },
    };
  }

  /** What the slot's draws are adjusted by from the next submit on. A plain start writes nothing: no row asks then. */
  start(start: SlotStart): void {
    const { slot, outputIds, stopIds, biases, logprobIds } = start;
    const { vocabSize, maxBiases, maxLogprobIds } = this.#limits;
    const penalised = isPenalised(start);
    const minNewTokens = stopIds.length > 0 ? start.minNewTokens : 0;
    const counts = penalised ? packCounts(outputIds) : new Uint32Array();
    if (penalised || biases.length > 0 || minNewTokens > 0) {
      const record = packSlot({
        ...start,
        penalised,
        minNewTokens,
        counted: counts.length / 2,
        biases: biases.length,
      });
      this.#write(this.slots, slot * SLOT_WORDS, record);
    }
    this.#write(this.counted, slot * maxCountedIds(this.#limits) * 2, counts);
    this.#write(this.biases, slot * maxBiases * 2, packBiases(biases));
    if (minNewTokens > 0) this.#write(this.stops, slot * maskWords(vocabSize), packIdSet(stopIds, vocabSize));
    if (logprobIds.length > 0) {
      const ids = Uint32Array.from([logprobIds.length, ...Array.from(logprobIds)]);
      this.#write(this.slotIds, slot * (1 + maxLogprobIds), ids);
    }
  }

  /** Masks 0, 1, … of the next submit, [ceil(vocabSize / 32)] each; undefined: every id may be drawn. */
  mask(masks: readonly (Uint32Array | undefined)[]): void {
    const words = maskWords(this.#limits.vocabSize);
    masks.forEach((mask, i) => {
      this.#write(this.masks, i * words, mask ? Uint32Array.from(mask) : this.#everyId);
    });
  }

  #write(buffer: GPUBuffer, at: number, words: Uint32Array<ArrayBuffer>): void {
    if (words.length > 0) this.#queue.writeBuffer(buffer, at * 4, words);
  }
}
