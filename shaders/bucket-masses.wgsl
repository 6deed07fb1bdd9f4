// How many tokens, and what weight, each of 256 buckets of a row's logits has:
//
//   mass      = sum of exp2((l - high) * log2 scale + bucket * log2 scale / bucket scale), in units of 2^-17
//
//   step    metadata; logits rows = step[2]
//   logits  logit-words*.wgsl
//   rows, jobs, chunks  sampler-state.wgsl
//   partials  [jobs, spans, 2, 256] u32: counts and masses
//
// Threads and buckets: bucket-job.wgsl. Weights count from their bucket's top: sums of integers, which have no
// order. 16,384 of at most 2^17 fit a word. A chunk whose best is below the floor isn't read. No barrier: SwiftShader
// runs a kernel that has one several times slower. So they are added in storage, where bucket-scan.wgsl leaves zeros.
// Prepend step, sampler-state, logit-words and bucket-job.
@group(0) @binding(6) var<storage, read_write> partials: array<atomic<u32>>;

const MASS_UNITS = 131072.0;

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
  let job = takeJob(index, lane);
  if (job == NONE) {
    return;
  }
  let jobAt = job * JOB_STATE;
  countsAt = index * 2u * BUCKETS;
  scale = bitcast<f32>(jobs[jobAt + JOB_LOG2_SCALE]);
  step2 = bucketLog2(scale, bucketScale);
  counted = jobs[jobAt + JOB_LIMIT] < params.vocabulary;
  if (best >= floor) {
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
