// Adjusts the logits of a tile's rows that have LOGITS_ADJUSTED, in place, by what their slots say, and counts before that
// what a slot with penalties drew last: counted[slot] gains (id, 1), or the count of id grows.
//
//   of each id counted in the output:  l -= frequency * count + presence, then l = l < 0 ? l * repetition : l / repetition
//   of each bias:                      l += bias
//   of each stop id, while output position < min new tokens:  l = MASKED_LOGIT
//
//   step     metadata; logits rows = step[2]
//   slots    [maxSequences, 8] u32, see src/gpu/slot-layout.ts; the number of pairs grows, and a draw is to be counted
//            from the row on that makes it
//   counted  [maxSequences, maxCounted, 2] u32: id, count; ids differ
//   biases   [maxSequences, maxBiases, 2] u32: id, bits of the bias; ids differ
//   stops    [maxSequences, stopWords] u32: a bit per id
//   logits   [tile rows, vocabulary] f32, seen as u32: a shader may assume that an f32 is no NaN
//   lastIds  [maxSequences] the id each slot sampled last
//
// No two rows of a step draw for one slot with penalties, but for rows of a draft (LOGITS_DRAFT), of 32 ids at most: their slot
// stays as it is, and the draft's ids up to the row's own count as output, which are the ids of the step's rows before it and of
// itself. A workgroup of THREADS a row, which costs as many threads' turns as there are pairs, and no pass over the vocabulary.
// Masks come last, which gives what masks before biases give, as a masked id stays masked. Results stay within
// ± LOGIT_BOUND, so that none is taken for a masked one; NaN and infinities stay, for the sampler to report. Prepend
// step.wgsl, logit-key.wgsl and masked-logit.wgsl.
struct Params {
  vocabulary: u32,
  firstRow: u32,
  maxCounted: u32,
  maxBiases: u32,
  stopWords: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read_write> slots: array<u32>;
@group(0) @binding(3) var<storage, read_write> counted: array<u32>;
@group(0) @binding(4) var<storage, read> biases: array<u32>;
@group(0) @binding(5) var<storage, read> stops: array<u32>;
@group(0) @binding(6) var<storage, read_write> logits: array<u32>;
@group(0) @binding(7) var<storage, read> lastIds: array<u32>;

const NO_ID = 0xffffffffu;

// Not 0: the slot's last id was counted before.
var<workgroup> found: atomic<u32>;
// A bit per id of the draft: it is among the pairs.
var<workgroup> paired: atomic<u32>;

const LOGIT_BOUND = 3.4e38;

fn bounded(x: f32) -> f32 {
  return clamp(x, -LOGIT_BOUND, LOGIT_BOUND);
}

// Divisions and products past the bound are seen before they are made: an overflow has no value to rely on.
fn penalised(logit: f32, count: f32, frequency: f32, presence: f32, repetition: f32) -> f32 {
  let x = bounded(bounded(logit) - (frequency * count + presence));
  if (x < 0.0) {
    if (repetition > 1.0 && x < -LOGIT_BOUND / repetition) {
      return -LOGIT_BOUND;
    }
    return x * repetition;
  }
  if (x > 0.0) {
    if (repetition < 1.0 && x > LOGIT_BOUND * repetition) {
      return LOGIT_BOUND;
    }
    return x / repetition;
  }
  return x;
}

fn biased(logit: f32, bias: f32) -> f32 {
  let half = bounded(logit) * 0.5 + bounded(bias) * 0.5;
  if (abs(half) >= LOGIT_BOUND * 0.5) {
    return select(-LOGIT_BOUND, LOGIT_BOUND, half > 0.0);
  }
  return bounded(logit) + bounded(bias);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.x;
  let record = params.firstRow + row;
  if (record >= step[STEP_LOGITS]) {
    return;
  }
  let at = step[STEP_LOGITS_AT] + record * 16u;
  let flags = step[at + 2u];
  if ((flags & LOGITS_ADJUSTED) == 0u) {
    return;
  }
  let slot = step[at + 1u];
  let slotAt = slot * 8u;
  let logitsAt = row * params.vocabulary;

  let frequency = bitcast<f32>(slots[slotAt + 1u]);
  let presence = bitcast<f32>(slots[slotAt + 2u]);
  let repetition = bitcast<f32>(slots[slotAt + 3u]);
  let counting = slots[slotAt] == 1u;
  let pairs = select(0u, min(slots[slotAt + 4u], params.maxCounted), counting);
  let drafted = (flags & LOGITS_DRAFT) != 0u;
  let drawn = select(NO_ID, lastIds[slot], counting && !drafted && slots[slotAt + 7u] == 1u);
  let guesses = select(0u, step[at + 13u], counting && drafted);
  let guessesAt = step[STEP_ROWS_AT] + (step[at] + 1u - guesses) * 4u + 2u;
  let pairsAt = slot * params.maxCounted * 2u;
  for (var pair = lane; pair < pairs; pair += THREADS) {
    let pairAt = pairsAt + pair * 2u;
    let id = counted[pairAt];
    var count = counted[pairAt + 1u];
    for (var again = id == drawn; again; again = false) {
      count += 1u;
      counted[pairAt + 1u] = count;
      atomicStore(&found, 1u);
    }
    for (var guess = 0u; guess < guesses; guess += 1u) {
      for (var again = step[guessesAt + guess * 4u] == id; again; again = false) {
        count += 1u;
        atomicOr(&paired, 1u << guess);
      }
    }
    let bits = logits[logitsAt + id];
    if (!isNonFinite(bits)) {
      logits[logitsAt + id] = bitcast<u32>(penalised(bitcast<f32>(bits), f32(count), frequency, presence, repetition));
    }
  }
  workgroupBarrier();
  storageBarrier();
  for (var guess = lane; guess < guesses; guess += THREADS) {
    let id = step[guessesAt + guess * 4u];
    var count = 0u;
    var first = (atomicLoad(&paired) & (1u << guess)) == 0u;
    for (var other = 0u; other < guesses; other += 1u) {
      let same = step[guessesAt + other * 4u] == id;
      first = first && !(same && other < guess);
      count += u32(same);
    }
    let bits = logits[logitsAt + id];
    if (first && !isNonFinite(bits)) {
      logits[logitsAt + id] = bitcast<u32>(penalised(bitcast<f32>(bits), f32(count), frequency, presence, repetition));
    }
  }
  for (var first = lane == 0u && counting && !drafted; first; first = false) {
    slots[slotAt + 7u] = u32((flags & (LOGITS_WRITES_SLOT | LOGITS_SCORED)) == LOGITS_WRITES_SLOT);
    for (var added = drawn != NO_ID && atomicLoad(&found) == 0u && pairs < params.maxCounted; added; added = false) {
      counted[pairsAt + pairs * 2u] = drawn;
      counted[pairsAt + pairs * 2u + 1u] = 1u;
      slots[slotAt + 4u] = pairs + 1u;
      let bits = logits[logitsAt + drawn];
      if (!isNonFinite(bits)) {
        logits[logitsAt + drawn] = bitcast<u32>(penalised(bitcast<f32>(bits), 1.0, frequency, presence, repetition));
      }
    }
  }
  storageBarrier();

  let biasCount = slots[slotAt + 5u];
  for (var pair = lane; pair < biasCount; pair += THREADS) {
    let pairAt = (slot * params.maxBiases + pair) * 2u;
    let index = logitsAt + biases[pairAt];
    let bits = logits[index];
    if (!isNonFinite(bits)) {
      logits[index] = bitcast<u32>(biased(bitcast<f32>(bits), bitcast<f32>(biases[pairAt + 1u])));
    }
  }
  storageBarrier();

  if (step[at + 3u] >= slots[slotAt + 6u]) {
    return;
  }
  for (var word = lane; word < params.stopWords; word += THREADS) {
    var rest = stops[slot * params.stopWords + word];
    while (rest != 0u) {
      let index = logitsAt + word * 32u + firstTrailingBit(rest);
      rest &= rest - 1u;
      if (!isNonFinite(logits[index])) {
        logits[index] = MASKED_LOGIT;
      }
    }
  }
}
