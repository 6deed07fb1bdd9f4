// How many tokens, and what weight, each of 256 buckets of a row's logits has:
//
//   bucket(l) = floor((high - max(l, range low)) * bucket scale), of tokens with l >= floor
//   mass      = sum of exp2((l - high) * log2 scale + bucket * log2 scale / bucket scale), in units of 2^-18
//
//   step    metadata; logits rows = step[2]
//   logits  logit-words*.wgsl
//   rows, jobs, chunks  sampler-state.wgsl
//   partials  [jobs, spans, 2, 256] u32: counts and masses
//
// A workgroup of 64 a job and span of 16 chunks. Weights count from their bucket's top: sums of integers, which have no
// order. 8,192 of at most 2^18 fit a word. A chunk whose best is below the floor isn't read. They are added in storage:
// SwiftShader compiles a millisecond for each word of workgroup memory, which it zeroes one by one.
// Prepend step, sampler-state and logit-words.
struct Params {
  vocabulary: u32,
  chunks: u32,
  spans: u32,
  firstRow: u32,
  tileRows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read> rows: array<u32>;
@group(0) @binding(4) var<storage, read> jobs: array<u32>;
@group(0) @binding(5) var<storage, read> chunks: array<u32>;
@group(0) @binding(6) var<storage, read_write> partials: array<atomic<u32>>;

const MASS_UNITS = 262144.0;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group.y * groups.x + group.x;
  let job = index / params.spans;
  let span = index % params.spans;
  let row = job % params.tileRows;
  if (job >= 2u * params.tileRows || params.firstRow + row >= step[STEP_LOGITS]) {
    return;
  }
  let jobAt = job * JOB_STATE;
  if (jobs[jobAt + JOB_TASK] == 0u) {
    return;
  }
  let countsAt = index * 2u * BUCKETS;
  for (var i = lane; i < 2u * BUCKETS; i += 64u) {
    atomicStore(&partials[countsAt + i], 0u);
  }
  storageBarrier();
  let high = bitcast<f32>(rows[row * ROW_STATE + ROW_HIGH]);
  let floor = bitcast<f32>(jobs[jobAt + JOB_FLOOR]);
  let low = bitcast<f32>(jobs[jobAt + JOB_RANGE_LOW]);
  let bucketScale = bitcast<f32>(jobs[jobAt + JOB_BUCKET_SCALE]);
  let scale = bitcast<f32>(jobs[jobAt + JOB_LOG2_SCALE]);
  let step2 = bucketLog2(scale, bucketScale);
  let counted = jobs[jobAt + JOB_LIMIT] < params.vocabulary;
  let end = (params.vocabulary + 3u) / 4u;
  let words = wordsOf(row, params.vocabulary);
  let begin = span * SPAN_CHUNKS * CHUNK_WORDS;
  for (var i = 0u; i < SPAN_CHUNKS * CHUNK_WORDS; i += 64u) {
    let chunk = span * SPAN_CHUNKS + i / CHUNK_WORDS;
    if (chunk >= params.chunks || bitcast<f32>(chunks[(row * params.chunks + chunk) * 4u]) < floor) {
      continue;
    }
    let word = begin + i + lane;
    if (word < end) {
      let values = bitcast<vec4<f32>>(logitWord(words, word, params.vocabulary));
      let kept = values >= vec4<f32>(floor);
      if (any(kept)) {
        let clamped = max(values, vec4<f32>(low));
        let buckets = vec4<u32>(placesOf(values, high, low, bucketScale));
        let weights = exp2((clamped - vec4<f32>(high)) * scale + vec4<f32>(buckets) * step2);
        let units = vec4<u32>(min(weights, vec4<f32>(1.0)) * MASS_UNITS + 0.5);
        // Turned around, since a component by number costs more.
        var id = word * 4u;
        var left = vec4<u32>(kept);
        var bucket4 = buckets;
        var unit4 = units;
        for (var j = 0u; j < 4u; j++) {
          if (left.x != 0u && (!PADDED || id < params.vocabulary)) {
            atomicAdd(&partials[countsAt + BUCKETS + bucket4.x], unit4.x);
            if (counted) {
              atomicAdd(&partials[countsAt + bucket4.x], 1u);
            }
          }
          id += 1u;
          left = left.yzwx;
          bucket4 = bucket4.yzwx;
          unit4 = unit4.yzwx;
        }
      }
    }
  }
}
