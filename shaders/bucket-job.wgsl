// What bucket-masses.wgsl and bucket-collect.wgsl share: a workgroup of 64 a job and region, a thread a chunk; how a logit's
// bucket is told. Prepend step, sampler-state and logit-words.
//
//   bucket(l) = floor((high - max(l, range low)) * bucket scale), of tokens with l >= floor
struct Params {
  vocabulary: u32,
  chunks: u32,
  spans: u32,
  firstRow: u32,
  tileRows: u32,
  round: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read> rows: array<u32>;
@group(0) @binding(4) var<storage, read> jobs: array<u32>;
@group(0) @binding(5) var<storage, read> chunks: array<u32>;

var<private> high: f32;
var<private> floor: f32;
var<private> low: f32;
var<private> bucketScale: f32;
// Where the row's words begin, a thread's chunk, and its best logit.
var<private> words: u32;
var<private> chunk: u32;
var<private> best: f32;

// The job of workgroup `index`; NONE where it has nothing to do.
fn takeJob(index: u32, lane: u32) -> u32 {
  let job = index / params.spans;
  let row = job % params.tileRows;
  if (job >= 2u * params.tileRows || params.firstRow + row >= step[STEP_LOGITS]) {
    return NONE;
  }
  let jobAt = job * JOB_STATE;
  if (jobs[jobAt + JOB_TASK] == 0u) {
    return NONE;
  }
  high = bitcast<f32>(rows[row * ROW_STATE + ROW_HIGH]);
  floor = bitcast<f32>(jobs[jobAt + JOB_FLOOR]);
  low = bitcast<f32>(jobs[jobAt + JOB_RANGE_LOW]);
  bucketScale = bitcast<f32>(jobs[jobAt + JOB_BUCKET_SCALE]);
  words = wordsOf(row, params.vocabulary);
  chunk = index % params.spans * STRANDS + lane;
  best = bitcast<f32>(chunks[row * CHUNK_WORDS * params.chunks + chunk]);
  return job;
}
