// shrunk[r, s, j] = f[r] * sum over split s of k of A[adapter of row r][j, k] * input[r, k], for rows that have an adapter
//
//   step     metadata; rows = step[0]
//   input    [rows, words] vec4, zero past K
//   a        [slots, words, ranks] vec4: four k of row j; zero past K. Row j is row j mod maxRank of module j / maxRank
//   counts   [slots, modules] u32: rows of a module's A that its adapter has
//   squares  [rows, squaresWords] vec4; see linear.wgsl, whose norm f is. normColumns 0: f is 1
//   shrunk   [rows, splits, ranks] f32; rows without an adapter, and ranks that an adapter hasn't, are left as they are
//
// The first half of a low-rank update (Hu et al., "LoRA", 2021); low-rank-expand.wgsl is the second. A thread sums one j
// of one split of a row: neighbouring threads have neighbouring j, whose words are neighbours. Splits give the few rows
// of decode more threads; how long one is follows from K alone, and so does the order of a sum. Prepend step.wgsl.
struct Params {
  words: u32,
  splitWords: u32,
  splits: u32,
  modules: u32,
  maxRank: u32,
  normColumns: u32,
  epsilon: f32,
  squaresWords: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> input: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> counts: array<u32>;
@group(0) @binding(5) var<storage, read> squares: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> shrunk: array<f32>;

fn normFactor(row: u32) -> f32 {
  var sums = vec4<f32>();
  for (var word = 0u; word < params.squaresWords; word++) {
    sums += squares[row * params.squaresWords + word];
  }
  let sum = (sums.x + sums.y) + (sums.z + sums.w);
  return 1.0 / sqrt(sum / f32(params.normColumns) + params.epsilon);
}

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (group.y * groups.x + group.x) * 64u + lane;
  let ranks = params.modules * params.maxRank;
  let row = index / (params.splits * ranks);
  if (row >= step[STEP_ROWS]) {
    return;
  }
  let adapter = stepAdapter(row);
  if (adapter == 0u) {
    return;
  }
  let j = index % ranks;
  if (j % params.maxRank >= counts[(adapter - 1u) * params.modules + j / params.maxRank]) {
    return;
  }
  let first = index / ranks % params.splits * params.splitWords;
  let end = min(first + params.splitWords, params.words);
  var sums = vec4<f32>();
  for (var word = first; word < end; word++) {
    sums = fma(a[((adapter - 1u) * params.words + word) * ranks + j], input[row * params.words + word], sums);
  }
  var sum = (sums.x + sums.y) + (sums.z + sums.w);
  if (params.normColumns != 0u) {
    sum *= normFactor(row);
  }
  shrunk[index] = sum;
}
