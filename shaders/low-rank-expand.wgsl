// output[r, o] = source[r, o] + scale * sum over j of B[adapter of row r][m][i, j] * shrunk[r, j of m], o = at[m] + i
//
// source is output itself, or rows that a product stored in the order of a paired matrix's tiles, whose numbers go back to
// their rows' places: of these all rows are taken, while of output only those are touched that have an adapter.
//
//   step     metadata; rows = step[0]
//   shrunk   [rows, splits, modules * maxRankWords] vec4 of low-rank-shrink.wgsl; its splits are added in order
//   b        [slots, 4 maxRankWords, outputWords] vec4: of column j four outputs; each module's begin at a word, zero past its
//            last, and of columns that an adapter hasn't
//   counts   [slots, modules] u32: columns of a module's B that its adapter has
//   output   [rows, stride] f32; modules one behind the other, at[m] the outputs of those before m
//   tiles    [rows, tilesStride] f32, where half isn't 0: row o and row o + half of each 2 half belong together as
//            src/gpu/pair-order.ts says; of module m pairs are counted from pairs[m], which has place places[m]
//
// The second half of a low-rank update. A thread has four outputs of a row; neighbouring threads have neighbouring words
// of B. Rows without an adapter, and modules that an adapter leaves alone, keep the bits they have.
// At most three modules. Prepend step.wgsl and low-rank-expand-word.wgsl.
struct Params {
  outputWords: u32,
  maxRankWords: u32,
  modules: u32,
  splits: u32,
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
@group(0) @binding(2) var<storage, read> shrunk: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> counts: array<u32>;
@group(0) @binding(5) var<storage, read> tiles: array<f32>;
@group(0) @binding(6) var<storage, read_write> output: array<f32>;

// Word j of four of what shrinking left of a row: its splits in order.
fn shrunkWord(row: u32, j: u32) -> vec4<f32> {
  let ranks = params.modules * params.maxRankWords;
  let at = row * params.splits * ranks + j;
  var x = shrunk[at];
  for (var split = 1u; split < params.splits; split++) {
    x += shrunk[at + split * ranks];
  }
  return x;
}

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (group.y * groups.x + group.x) * 64u + lane;
  let row = index / params.outputWords;
  if (row >= step[STEP_ROWS]) {
    return;
  }
  let adapter = stepAdapter(row);
  if (adapter == 0u && params.half == 0u) {
    return;
  }
  expandWord(row, adapter, index % params.outputWords);
}
