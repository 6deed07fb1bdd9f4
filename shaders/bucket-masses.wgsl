// How many tokens, and what weight, each of 256 buckets of a row's logits has:
//
//   bucket(l) = floor((high - max(l, range low)) * bucket scale), of tokens with l >= floor
//   mass      = sum of exp2((l - high) * log2 scale + bucket * log2 scale / bucket scale), in units of 2^-17
//
//   step    metadata; logits rows = step[2]
//   logits  logit-words*.wgsl
//   rows, jobs, chunks  sampler-state.wgsl
//   partials  [jobs, spans, 2, 256] u32: counts and masses
//
// A workgroup of 64 a job and region. Weights count from their bucket's top: sums of integers, which have no
// order. 16,384 of at most 2^17 fit a word. A chunk whose best is below the floor isn't read. No barrier: SwiftShader
// runs a kernel that has one several times slower. So they are added in storage, where bucket-scan.wgsl leaves zeros.
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

const MASS_UNITS = 131072.0;

var<private> high: f32;
var<private> floor: f32;
var<private> low: f32;
var<private> bucketScale: f32;
var<private> scale: f32;
var<private> step2: f32;
var<private> counted: bool;
var<private> countsAt: u32;

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
  countsAt = index * 2u * BUCKETS;
  high = bitcast<f32>(rows[row * ROW_STATE + ROW_HIGH]);
  floor = bitcast<f32>(jobs[jobAt + JOB_FLOOR]);
  low = bitcast<f32>(jobs[jobAt + JOB_RANGE_LOW]);
  bucketScale = bitcast<f32>(jobs[jobAt + JOB_BUCKET_SCALE]);
  scale = bitcast<f32>(jobs[jobAt + JOB_LOG2_SCALE]);
  step2 = bucketLog2(scale, bucketScale);
  counted = jobs[jobAt + JOB_LIMIT] < params.vocabulary;
  let words = wordsOf(row, params.vocabulary);
  let chunk = span * STRANDS + lane;
  if (bitcast<f32>(chunks[row * CHUNK_WORDS * params.chunks + chunk]) >= floor) {
    let end = endWordOf(chunk, params.vocabulary);
    for (var word = firstWordOf(chunk); word < end; word += STRANDS) {
      // A loop, since SwiftShader goes through an if whose condition holds for no thread.
      let values = bitcast<vec4<f32>>(logitWord(words, word, params.vocabulary));
      var some = max(max(values.x, values.y), max(values.z, values.w)) >= floor;
      while (some) {
        add(word, values);
        some = false;
      }
    }
  }
}

fn add(word: u32, values: vec4<f32>) {
  let distances = vec4<f32>(high) - max(values, vec4<f32>(low));
  let buckets = trunc(min(distances * bucketScale, vec4<f32>(255.0)));
  let weights = exp2(buckets * step2 - distances * scale);
  let units = integersOf(min(weights, vec4<f32>(1.0)) * MASS_UNITS);
  let at = vec4<u32>(countsAt) + integersOf(buckets);
  let ids = vec4<u32>(word * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
  let kept = (values >= vec4<f32>(floor)) & (ids < vec4<u32>(params.vocabulary));
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
  var places = at;
  for (var left = select(vec4<u32>(0u), vec4<u32>(kept), counted); any(left != vec4<u32>(0u)); left = vec4<u32>(left.yzw, 0u)) {
    if (left.x != 0u) {
      atomicAdd(&partials[places.x], 1u);
    }
    places = places.yzwx;
  }
}

// The nearest integers to numbers below 2^23, from a float's fraction: a conversion has to mind what doesn't fit.
fn integersOf(numbers: vec4<f32>) -> vec4<u32> {
  return bitcast<vec4<u32>>(numbers + vec4<f32>(8388608.0)) & vec4<u32>(0x7fffffu);
}
