// shrunk[r, s, j] = f[r] * sum over split s of k of A[adapter of row r][j, k] * input[r, k], for rows that have an adapter
//
//   step     metadata; rows = step[0]
//   input    [rows, words] vec4, zero past K
//   a        [slots, 4 words, rankWords] vec4: four rows of one k, zero past K. A module has maxRankWords words of rows, zero past its adapter's
//   counts   [slots, modules] u32: rows of a module's A that its adapter has
//   squares  [rows, squaresWords] vec4; see linear.wgsl, whose norm f is. normColumns 0: f is 1
//   shrunk   [rows, splits, rankWords] vec4; of rows without an adapter, and of words that an adapter hasn't, left as it is
//
// The first half of a low-rank update (Hu et al., "LoRA", 2021); low-rank-expand.wgsl is the second. A thread sums four j
// of one split of a row: neighbouring threads have neighbouring words of a. Splits give the few rows
// of decode more threads; how long one is follows from K alone, and so does the order of a sum. Prepend step.wgsl and
// low-rank-shrink-word.wgsl.
struct Params {
  words: u32,
  splitWords: u32,
  splits: u32,
  modules: u32,
  maxRankWords: u32,
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
@group(0) @binding(6) var<storage, read_write> shrunk: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (group.y * groups.x + group.x) * 64u + lane;
  let ranks = params.modules * params.maxRankWords;
  let row = index / (params.splits * ranks);
  if (row >= step[STEP_ROWS]) {
    return;
  }
  let adapter = stepAdapter(row);
  if (adapter == 0u) {
    return;
  }
  let j = index % ranks;
  if (!hasRanks(adapter, j)) {
    return;
  }
  var sums = shrinkWord(row, adapter, index / ranks % params.splits, j);
  if (params.normColumns != 0u) {
    sums *= normFactor(row);
  }
  shrunk[index] = sums;
}
