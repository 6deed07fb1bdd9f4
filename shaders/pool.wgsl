// output[s] = the pooled rows of sequence s: their mean, the first one, the last one, or each column's largest number.
//
//   step    metadata; sequences = step[1], each with its first row and how many it has
//   input   [rows, words] vec4
//   output  [maxSequences, words] vec4
//
// A thread makes one word. A mean is four sums, over rows i mod 4, added as (0+1)+(2+3), times 1 / rows: its order follows
// from the sequence's rows only, whatever else is in the step. Prepend step.wgsl.
struct Params {
  words: u32,
  // 0: mean, 1: first, 2: last, 3: largest.
  kind: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> input: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> output: array<vec4<f32>>;

const POOL_MEAN = 0u;
const POOL_LAST = 2u;
const POOL_MAX = 3u;

fn rowSum(first: u32, begin: u32, count: u32, word: u32) -> vec4<f32> {
  var sum = vec4<f32>();
  for (var i = begin; i < count; i += 4u) {
    sum += input[(first + i) * params.words + word];
  }
  return sum;
}

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (group.y * groups.x + group.x) * 64u + lane;
  let sequence = index / params.words;
  let word = index % params.words;
  if (sequence >= step[STEP_SEQUENCES]) {
    return;
  }
  let at = step[STEP_SEQUENCES_AT] + sequence * 8u;
  let first = step[at + 1u];
  let count = step[at + 2u];
  var pooled = input[(first + select(0u, count - 1u, params.kind == POOL_LAST)) * params.words + word];
  if (params.kind == POOL_MEAN) {
    let even = rowSum(first, 0u, count, word) + rowSum(first, 1u, count, word);
    let odd = rowSum(first, 2u, count, word) + rowSum(first, 3u, count, word);
    pooled = (even + odd) * (1.0 / f32(count));
  }
  if (params.kind == POOL_MAX) {
    for (var i = 1u; i < count; i++) {
      pooled = max(pooled, input[(first + i) * params.words + word]);
    }
  }
  output[index] = pooled;
}
