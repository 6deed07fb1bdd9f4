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
// order. 8,192 of at most 2^18 fit a word. A chunk whose best is below the floor isn't read.
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
@group(0) @binding(6) var<storage, read_write> partials: array<u32>;

const MASS_UNITS = 262144.0;

var<workgroup> counts: array<atomic<u32>, 256>;
var<workgroup> masses: array<atomic<u32>, 256>;

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
  for (var i = lane; i < BUCKETS; i += 64u) {
    atomicStore(&counts[i], 0u);
    atomicStore(&masses[i], 0u);
  }
  workgroupBarrier();
  let high = bitcast<f32>(rows[row * ROW_STATE + ROW_HIGH]);
  let floor = bitcast<f32>(jobs[jobAt + JOB_FLOOR]);
  let low = bitcast<f32>(jobs[jobAt + JOB_RANGE_LOW]);
  let bucketScale = bitcast<f32>(jobs[jobAt + JOB_BUCKET_SCALE]);
  let scale = bitcast<f32>(jobs[jobAt + JOB_LOG2_SCALE]);
  let step2 = bucketLog2(scale, bucketScale);
  let counted = jobs[jobAt + JOB_LIMIT] < params.vocabulary;
  let end = (params.vocabulary + 3u) / 4u;
  let begin = span * SPAN_CHUNKS * CHUNK_WORDS;
  for (var i = 0u; i < SPAN_CHUNKS * CHUNK_WORDS; i += 64u) {
    let chunk = span * SPAN_CHUNKS + i / CHUNK_WORDS;
    if (chunk >= params.chunks || bitcast<f32>(chunks[(row * params.chunks + chunk) * 4u]) < floor) {
      continue;
    }
    let word = begin + i + lane;
    if (word < end) {
      let values = bitcast<vec4<f32>>(logitWord(row, word, params.vocabulary));
      let kept = values >= vec4<f32>(floor);
      if (any(kept)) {
        let clamped = max(values, vec4<f32>(low));
        let buckets = vec4<u32>(placesOf(values, high, low, bucketScale));
        let weights = exp2((clamped - vec4<f32>(high)) * scale + vec4<f32>(buckets) * step2);
        let units = vec4<u32>(min(weights, vec4<f32>(1.0)) * MASS_UNITS + 0.5);
        for (var j = 0u; j < 4u; j++) {
          if (kept[j]) {
            atomicAdd(&masses[buckets[j]], units[j]);
            if (counted) {
              atomicAdd(&counts[buckets[j]], 1u);
            }
          }
        }
      }
    }
  }
  workgroupBarrier();
  for (var i = lane; i < BUCKETS; i += 64u) {
    partials[index * 2u * BUCKETS + i] = atomicLoad(&counts[i]);
    partials[(index * 2u + 1u) * BUCKETS + i] = atomicLoad(&masses[i]);
  }
}
