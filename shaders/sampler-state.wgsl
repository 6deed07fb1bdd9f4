// What the sampler's kernels share: sizes, the layout of their state, weights (src/gpu/sampler-layout.ts has the same
// numbers).
//
//   chunks  [tile rows, 4, chunks]  of 256 ids each: best logit, 1 if a NaN or an infinity was seen, sum of
//                                   exp((logit - best) / T), lowest logit. Chunk 64 g + s has the ids of strand s in
//                                   region g of 16,384; an id's strand is floor(id / 4) modulo 64
//   rows    [tile rows, 1232]       ROW_* words
//   jobs    [2 * tile rows, 544]    JOB_* words: a row's draw; after those of all rows, its top logprobs
//   picks   [2 * tile rows, 8]      PICK_* words: what was found of a job
//   lists   [2 * tile rows, SEARCH_STATE]  of a job: [5, 256] counts and weights of digits, and of the buckets where one
//                                   workgroup searches; [3, 1 + LIST] count and ids, in no order: of the bucket of the
//                                   cut, of the one guessed for the draw, of the draw's where the guess was wrong
const STRANDS = 64u;
const REGION_IDS = 16384u;
const CHUNK_IDS = 256u;
const CHUNK_WORDS = 4u;
const LIST = 4096u;
const DIGITS_STATE = 1280u;
const SEARCH_STATE = DIGITS_STATE + 3u * (LIST + 1u);
const BUCKETS = 256u;

const ROW_NON_FINITE = 0u;
const ROW_HIGH = 1u;
const ROW_LN_TOTAL = 2u;
const ROW_TEMPERATURE = 3u;
// Not 0: one more than the first of the draws that wait for what is before them.
const ROW_WAITS = 4u;
const ROW_MASS_LIMIT = 5u;
// [ROUNDS, 2] key and id of draws of the whole row; NONE: out of question.
const ROW_DRAWS = 8u;
// [2, 64] of strands: best logit; weight, against the row's best: of all, then of what is outside of the head.
const ROW_STRANDS = 16u;
// [3, 64] the head, in order: key, id, weight.
const ROW_HEAD = 272u;
// [2, 256] keys and ids of what may be in the head, in no order; before and after, sums of threads and strands.
const ROW_LIST = 464u;
// [256] chunks that have some of it, in no order.
const ROW_OPEN = 976u;
const ROW_STATE = 1232u;
const ROUNDS = 4u;
// From here on, draws are weighed together.
const LAST_ROUNDS = 2u;
const HEAD = 20u;
const HEAD_MOST = 64u;
const HEAD_LIST = 256u;

// 0: nothing to do; else what the bucket is searched for.
const JOB_TASK = 0u;
const JOB_BUCKET = 1u;
// Not 0: one workgroup searches for it, without buckets of all regions.
const JOB_WHOLE = 2u;
const JOB_GUESS = 3u;
// The cut: at most `limit` tokens, none once the weight before it is over `mass limit`, none below `floor`.
const JOB_LIMIT = 4u;
const JOB_MASS_LIMIT = 5u;
// Tokens above the bucket.
const JOB_COUNT_ABOVE = 6u;
// Weight of what stays, where that is known without a cut.
const JOB_KEPT_MASS = 7u;
const JOB_FLOOR = 8u;
// Bucket of a logit: (high - max(logit, range low)) * bucket scale.
const JOB_RANGE_LOW = 9u;
const JOB_BUCKET_SCALE = 10u;
// log2 of a weight, a unit of logit.
const JOB_LOG2_SCALE = 11u;
// [257] weight above each bucket; [256] tokens above and in each.
const JOB_ABOVE = 16u;
const JOB_COUNTS = 288u;
const JOB_STATE = 544u;

// Kept are keys above the cut key, and of those equal to it ids up to the cut id.
const PICK_CUT_KEY = 0u;
const PICK_CUT_ID = 1u;
const PICK_KEPT_COUNT = 2u;
const PICK_KEPT_MASS = 3u;
// The draw's bucket where it has still to be collected, else NONE.
const PICK_PENDING = 4u;
// Not 0: the row's head tells its top logprobs.
const PICK_OF_HEAD = 5u;
const PICK_STATE = 8u;

const TASK_CUT = 1u;
const TASK_DRAW = 2u;
const NONE = 0xffffffffu;

// The i-th id of a chunk; it may be past the vocabulary.
fn idOfChunk(chunk: u32, i: u32) -> u32 {
  return chunk / STRANDS * REGION_IDS + i / 4u * 4u * STRANDS + chunk % STRANDS * 4u + i % 4u;
}

// Words of four ids: a chunk's first, and one past its last; every STRANDS-th is its own.
fn firstWordOf(chunk: u32) -> u32 {
  return chunk / STRANDS * (REGION_IDS / 4u) + chunk % STRANDS;
}

fn endWordOf(chunk: u32, vocabulary: u32) -> u32 {
  return min((chunk / STRANDS + 1u) * (REGION_IDS / 4u), (vocabulary + 3u) / 4u);
}

const FLOAT_MAX = 3.4028234663852886e38;
const LOG2_E = 1.4426950408889634;
// Bits of the logit of an id that can't be drawn: -FLOAT_MAX. Its weight is 0.
const MASKED = 0xff7fffffu;

// The least logit that a weight is computed of: 2^-log2Weight of the best's; but below the best, where its own float's
// step is larger than that.
fn lowestLogit(high: f32, log2Scale: f32, log2Weight: f32) -> f32 {
  return logitBelow(high, log2Weight / log2Scale);
}

// `distance` below a logit, but below it.
fn logitBelow(high: f32, distance: f32) -> f32 {
  let low = max(high, -3.4e38) - distance;
  let bits = bitcast<u32>(high);
  return select(low, bitcast<f32>(select(bits - 1u, bits + 1u, high < 0.0)), low >= high);
}

// log2 of a weight, a unit of logit. Temperatures are taken as in [1e-6, 1e30]: below, rows are greedy; above, a masked
// logit might get a weight, and all others have the same long before.
fn log2ScaleOf(temperature: f32) -> f32 {
  return LOG2_E / clamp(temperature, 1e-6, 1e30);
}

// ln of a token's probability, never below the smallest float.
fn logprobOf(logitBits: u32, high: f32, temperature: f32, lnTotal: f32) -> f32 {
  if (logitBits == MASKED) {
    return -FLOAT_MAX;
  }
  let distance = max(bitcast<f32>(logitBits), max(high, 0.0) - FLOAT_MAX) - high;
  if (distance <= -FLOAT_MAX * min(temperature, 1.0)) {
    return -FLOAT_MAX;
  }
  return max(distance / temperature, lnTotal - FLOAT_MAX) - lnTotal;
}

// log2 of the weight that a bucket's top loses against the one before.
fn bucketLog2(log2Scale: f32, bucketScale: f32) -> f32 {
  if (bucketScale == 0.0) {
    return 0.0;
  }
  return log2Scale / bucketScale;
}

// Bucket of a logit, before the fraction is cut off.
fn placeOf(logit: f32, high: f32, low: f32, bucketScale: f32) -> f32 {
  return min((high - max(logit, low)) * bucketScale, 255.0);
}

fn sumOf(some: vec4<f32>) -> f32 {
  return (some.x + some.y) + (some.z + some.w);
}

// Whether a weight is within a limit however its sums round: chunks' sums are of other additions than what they stand for.
// So it depends on no draw's path whether it stays.
fn surely(mass: f32, limit: f32) -> bool {
  return mass * 1.001 <= limit;
}
