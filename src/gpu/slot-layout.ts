/** u32 words of a slot's record: what shaders/adjust-logits.wgsl reads. Word 7 is its own: 1 where the slot's last id is still to be counted. */
export const SLOT_WORDS = 8;

/** What a slot's draws are adjusted by; its counts, biases and stop ids lie in buffers of their own. */
export interface SlotRecord {
  readonly frequencyPenalty: number;
  readonly presencePenalty: number;
  readonly repetitionPenalty: number;
  /** Draws are counted, and penalties apply. */
  readonly penalised: boolean;
  /** Pairs of counts. */
  readonly counted: number;
  readonly biases: number;
  /** Its stop ids can't be drawn below this output position. */
  readonly minNewTokens: number;
}

export function packSlot(record: SlotRecord): Uint32Array<ArrayBuffer> {
  const words = new Uint32Array(SLOT_WORDS);
  const floats = new Float32Array(words.buffer);
  words[0] = record.penalised ? 1 : 0;
  floats[1] = record.frequencyPenalty;
  floats[2] = record.presencePenalty;
  floats[3] = record.repetitionPenalty;
  words[4] = record.counted;
  words[5] = record.biases;
  words[6] = record.minNewTokens;
  return words;
}

/** (id, count) of each different id. */
export function packCounts(ids: ArrayLike<number>): Uint32Array<ArrayBuffer> {
  const counts = new Map<number, number>();
  for (const id of Array.from(ids)) counts.set(id, (counts.get(id) ?? 0) + 1);
  return Uint32Array.from([...counts].flat());
}

/** (id, bits of the bias) of each. */
export function packBiases(
  biases: readonly { readonly id: number; readonly bias: number }[],
): Uint32Array<ArrayBuffer> {
  const words = new Uint32Array(biases.length * 2);
  const floats = new Float32Array(words.buffer);
  biases.forEach(({ id, bias }, i) => {
    words[i * 2] = id;
    floats[i * 2 + 1] = bias;
  });
  return words;
}

/** A bit per id of the vocabulary, least significant first; [ceil(vocabulary / 32)]. */
export function packIdSet(ids: ArrayLike<number>, vocabulary: number): Uint32Array<ArrayBuffer> {
  const words = new Uint32Array(Math.ceil(vocabulary / 32));
  for (const id of Array.from(ids)) words[id >>> 5]! |= 1 << (id & 31);
  return words;
}
