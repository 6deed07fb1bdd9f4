// output[r, o] = source[r, o] + scale * sum over j of B[adapter of row r][m][i, j] * shrunk[r, j of m], o = at[m] + i
//
// source is output itself, or rows that a product stored in the order of a paired matrix's tiles, whose numbers go back to
// their rows' places: of these all rows are taken, while of output only those are touched that have an adapter.
//
//   step     metadata; rows = step[0]
//   shrunk   [rows, splits, modules * maxRankWords] vec4 of low-rank-shrink.wgsl; its splits are added in order
//   b        [slots, 4 maxRankWords, words] vec4: of column j four outputs; each module's begin at a word, zero past its
//            last, and of columns that an adapter hasn't
//   counts   [slots, modules] u32: columns of a module's B that its adapter has
//   output   [rows, stride] f32; modules one behind the other, at[m] the outputs of those before m
//   tiles    [rows, tilesStride] f32, where half isn't 0: row o and row o + half of each 2 half belong together as
//            src/gpu/pair-order.ts says; of module m pairs are counted from pairs[m], which has place places[m]
//
// The second half of a low-rank update. A thread has four outputs of a row; neighbouring threads have neighbouring words
// of B. Rows without an adapter, and modules that an adapter leaves alone, keep the bits they have.
// At most three modules. Prepend step.wgsl.
struct Params {
  words: u32,
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

// Where output `o` lies in tiles, of a module whose pairs begin at `firstPair` and lie from `firstPlace` on.
fn placeOf(o: u32, firstPair: u32, firstPlace: u32) -> u32 {
  let inBlock = o % (2u * params.half);
  let second = u32(inBlock >= params.half);
  let pair = (o - inBlock) / 2u + inBlock - second * params.half - firstPair;
  return firstPlace + pair / 32u * 64u + pair % 32u / 4u + 8u * (pair % 4u) + 32u * second;
}

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (group.y * groups.x + group.x) * 64u + lane;
  let row = index / params.words;
  if (row >= step[STEP_ROWS]) {
    return;
  }
  let adapter = stepAdapter(row);
  if (adapter == 0u && params.half == 0u) {
    return;
  }
  // Which module's word this is, and where that module's outputs are.
  var word = index % params.words;
  var matrix = 0u;
  var outputs = params.outputs0;
  var at = 0u;
  var firstPair = params.pairs0;
  var firstPlace = params.places0;
  if (word >= (outputs + 3u) / 4u) {
    word -= (outputs + 3u) / 4u;
    at = outputs;
    outputs = params.outputs1;
    matrix = 1u;
    firstPair = params.pairs1;
    firstPlace = params.places1;
    if (word >= (outputs + 3u) / 4u) {
      word -= (outputs + 3u) / 4u;
      at += outputs;
      outputs = params.outputs2;
      matrix = 2u;
      firstPair = params.pairs2;
      firstPlace = params.places2;
    }
  }
  var count = 0u;
  if (adapter != 0u) {
    count = counts[(adapter - 1u) * params.modules + matrix];
  }
  if (count == 0u && params.half == 0u) {
    return;
  }
  let ranks = params.modules * params.maxRankWords;
  let shrunkAt = row * params.splits * ranks + matrix * params.maxRankWords;
  var sums = vec4<f32>();
  var bAt = (adapter - 1u) * params.maxRankWords * 4u * params.words + index % params.words;
  for (var j = 0u; j * 4u < count; j++) {
    var x = shrunk[shrunkAt + j];
    for (var split = 1u; split < params.splits; split++) {
      x += shrunk[shrunkAt + split * ranks + j];
    }
    sums = fma(b[bAt], vec4<f32>(x.x), sums);
    sums = fma(b[bAt + params.words], vec4<f32>(x.y), sums);
    sums = fma(b[bAt + 2u * params.words], vec4<f32>(x.z), sums);
    sums = fma(b[bAt + 3u * params.words], vec4<f32>(x.w), sums);
    bAt += 4u * params.words;
  }
  let first = at + word * 4u;
  let to = row * params.stride + first;
  // Where pairs lie by fours, four outputs from a word on are 8 places apart.
  let whole = params.half % 4u == 0u && first % 4u == 0u;
  var place = 0u;
  if (params.half != 0u) {
    place = row * params.tilesStride + placeOf(first, firstPair, firstPlace);
  }
  for (var i = 0u; i < min(4u, outputs - word * 4u); i++) {
    var x: f32;
    if (params.half == 0u) {
      x = output[to + i];
    } else {
      if (!whole) {
        place = row * params.tilesStride + placeOf(first + i, firstPair, firstPlace);
      }
      x = tiles[place];
      place += 8u;
    }
    // Not + 0: a negative zero keeps its bits.
    if (count != 0u) {
      x = fma(params.scale, sums[i], x);
    }
    output[to + i] = x;
  }
}
