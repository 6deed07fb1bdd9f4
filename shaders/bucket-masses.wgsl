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
  for (var i = lane * 4u; i < SPAN_CHUNKS * CHUNK_WORDS; i += 256u) {
    let chunk = span * SPAN_CHUNKS + i / CHUNK_WORDS;
    if (chunk >= params.chunks || bitcast<f32>(chunks[(row * params.chunks + chunk) * 4u]) < floor) {
      continue;
    }
    let most = min(begin + i + 4u, end);
    for (var word = begin + i; word < most; word++) {
      let values = bitcast<vec4<f32>>(logitWord(words, word, params.vocabulary));
      if (max(max(values.x, values.y), max(values.z, values.w)) < floor) {
        continue;
      }
      let distances = vec4<f32>(high) - max(values, vec4<f32>(low));
      let buckets = vec4<u32>(min(distances * bucketScale, vec4<f32>(255.0)));
      let weights = exp2(vec4<f32>(buckets) * step2 - distances * scale);
      let units = vec4<u32>(min(weights, vec4<f32>(1.0)) * MASS_UNITS + 0.5);
      let at = vec4<u32>(countsAt) + buckets;
      var kept = values >= vec4<f32>(floor);
      if (PADDED) {
        kept = kept & (vec4<u32>(word * 4u) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(params.vocabulary));
      }
      // One by one: a component by number costs more.
      if (kept.x) {
        atomicAdd(&partials[at.x + BUCKETS], units.x);
      }
      if (kept.y) {
        atomicAdd(&partials[at.y + BUCKETS], units.y);
      }
      if (kept.z) {
        atomicAdd(&partials[at.z + BUCKETS], units.z);
      }
      if (kept.w) {
        atomicAdd(&partials[at.w + BUCKETS], units.w);
      }
      if (counted) {
        if (kept.x) {
          atomicAdd(&partials[at.x], 1u);
        }
        if (kept.y) {
          atomicAdd(&partials[at.y], 1u);
        }
        if (kept.z) {
          atomicAdd(&partials[at.z], 1u);
        }
        if (kept.w) {
          atomicAdd(&partials[at.w], 1u);
        }
      }
    }
  }
}
