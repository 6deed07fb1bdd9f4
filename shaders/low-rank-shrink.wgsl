// shrunk[r, s, j] = f[r] * sum over split s of k of A[adapter of row r][j, k] * input[r, k], for rows that have an adapter
//
//   step     metadata; rows = step[0]
//   input    [rows, words] vec4, zero past K
//   a        [slots, words, rankWords, 4] vec4: of four rows four k, one after the other, zero past K. A module has maxRankWords words of
//           rows, zero past its adapter's
//   counts   [slots, modules] u32: rows of a module's A that its adapter has
//   squares  [rows, squaresWords] vec4; see linear.wgsl, whose norm f is. normColumns 0: f is 1
//   shrunk   [rows, splits, rankWords] vec4; of rows without an adapter, and of words that an adapter hasn't, left as it is
//
// The first half of a low-rank update (Hu et al., "LoRA", 2021); low-rank-expand.wgsl is the second. A thread sums four j
// of one split of a row, in order of k. Neighbouring threads have neighbouring rows, which mostly have as many ranks: on a
// processor that plays a GPU a thread that has none takes others' time. Splits give the few rows of decode more threads;
// how long one is follows from K alone, and so does the order of a sum. Prepend step.wgsl and `const THREADS`.
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

// What norm-factor.wgsl has, of squares that are read by fours: it has them as numbers, since linear.wgsl writes them too.
fn normFactor(row: u32) -> f32 {
  var sums = vec4<f32>();
  for (var word = 0u; word < params.squaresWords; word++) {
    sums += squares[row * params.squaresWords + word];
  }
  let sum = (sums.x + sums.y) + (sums.z + sums.w);
  return 1.0 / sqrt(sum / f32(params.normColumns) + params.epsilon);
}

@compute @workgroup_size(THREADS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (group.y * groups.x + group.x) * THREADS + lane;
  let rows = max(step[STEP_ROWS], 1u);
  let ranks = params.modules * params.maxRankWords;
  let place = index / rows;
  if (place >= params.splits * ranks) {
    return;
  }
  let row = index - place * rows;
  let adapter = stepAdapter(row);
  if (adapter == 0u) {
    return;
  }
  let split = place / ranks;
  let j = place - split * ranks;
  let matrix = j / params.maxRankWords;
  if ((j - matrix * params.maxRankWords) * 4u >= counts[(adapter - 1u) * params.modules + matrix]) {
    return;
  }
  let first = split * params.splitWords;
  let end = min(first + params.splitWords, params.words);
  var sums = vec4<f32>();
  var at = (((adapter - 1u) * params.words + first) * ranks + j) * 4u;
  for (var word = first; word < end; word++) {
    let x = input[row * params.words + word];
    sums = fma(a[at], vec4<f32>(x.x), sums);
    sums = fma(a[at + 1u], vec4<f32>(x.y), sums);
    sums = fma(a[at + 2u], vec4<f32>(x.z), sums);
    sums = fma(a[at + 3u], vec4<f32>(x.w), sums);
    at += 4u * ranks;
  }
  if (params.normColumns != 0u) {
    sums *= normFactor(row);
  }
  shrunk[(row * params.splits + split) * ranks + j] = sums;
}
