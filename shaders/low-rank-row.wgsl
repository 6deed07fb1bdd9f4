// output[r, o] = source[r, o] + scale * sum over j of B[adapter of row r][m][i, j] * s[j], o = at[m] + i, where
// s[j] = f[r] * sum over k of A[adapter of row r][m][j, k] * input[r, k], split by split of k
//
//   step     metadata; rows = step[0]
//   input    [rows, words] vec4; see low-rank-shrink.wgsl, as for a, counts and squares
//   a        [slots, 4 words, modules * maxRankWords] vec4
//   counts   [slots, modules] u32
//   squares  [rows, squaresWords] vec4
//   b        [slots, 4 maxRankWords, outputWords] vec4; see low-rank-expand.wgsl, as for tiles and output
//   tiles    [rows, tilesStride] f32
//   output   [rows, stride] f32
//
// A low-rank update (Hu et al., "LoRA", 2021) in one dispatch, for a processor that plays a GPU, which runs few threads at
// once and pays for each dispatch. A thread has a module of a row, and keeps its s: at most 4 RANK_WORDS ranks. No barrier: on
// a processor a kernel with one costs as much as two without. Neighbouring threads have neighbouring rows, whose loops are as long.
// Numbers are summed by what low-rank-shrink.wgsl and low-rank-expand.wgsl sum them by, so they have the same bits.
// Prepend step.wgsl, low-rank-shrink-word.wgsl, low-rank-expand-word.wgsl, `const THREADS` and `const RANK_WORDS`.
struct Params {
  words: u32,
  splitWords: u32,
  splits: u32,
  modules: u32,
  maxRankWords: u32,
  normColumns: u32,
  epsilon: f32,
  squaresWords: u32,
  outputWords: u32,
  stride: u32,
  scale: f32,
  outputs0: u32,
  outputs1: u32,
  outputs2: u32,
  half: u32,
  tilesStride: u32,
  pairs0: u32,
  pairs1: u32,
  pairs2: u32,
  places0: u32,
  places1: u32,
  places2: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> input: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> counts: array<u32>;
@group(0) @binding(5) var<storage, read> squares: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read> tiles: array<f32>;
@group(0) @binding(8) var<storage, read_write> output: array<f32>;

// Of the thread's module.
var<private> shrunk: array<vec4<f32>, RANK_WORDS>;

fn shrunkWord(row: u32, j: u32) -> vec4<f32> {
  return shrunk[j % params.maxRankWords];
}

@compute @workgroup_size(THREADS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (group.y * groups.x + group.x) * THREADS + lane;
  let rows = step[STEP_ROWS];
  if (index >= rows * params.modules) {
    return;
  }
  let row = index % rows;
  let matrix = index / rows;
  let adapter = stepAdapter(row);
  if (adapter == 0u && params.half == 0u) {
    return;
  }
  if (adapter != 0u) {
    var factor = 1.0;
    if (params.normColumns != 0u) {
      factor = normFactor(row);
    }
    for (var j = 0u; j < params.maxRankWords; j++) {
      let word = matrix * params.maxRankWords + j;
      if (!hasRanks(adapter, word)) {
        break;
      }
      var sums = shrinkWord(row, adapter, 0u, word) * factor;
      for (var split = 1u; split < params.splits; split++) {
        sums += shrinkWord(row, adapter, split, word) * factor;
      }
      shrunk[j] = sums;
    }
  }
  // Its words of the outputs: those of modules before it come first.
  var first = 0u;
  var outputs = params.outputs0;
  if (matrix > 0u) {
    first = (outputs + 3u) / 4u;
    outputs = params.outputs1;
  }
  if (matrix > 1u) {
    first += (outputs + 3u) / 4u;
    outputs = params.outputs2;
  }
  for (var word = 0u; word < (outputs + 3u) / 4u; word++) {
    expandWord(row, adapter, first + word);
  }
}
