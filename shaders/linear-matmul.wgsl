// output[c, outputAt + r] (+)= sum over k of weights[r, k] * input[firstColumn + c, k], for many columns c.
//
//   step     metadata; columns there are = step[countWord]
//   weights  [outputs, rowWords] words of four weights, zero past K
//   input    [columns, inputWords] vec4, zero past K
//   output   [columns, outputStride] f32
//
// A thread owns a tile of 4 rows by 4 columns in registers: 8 loads for 64 multiply-adds, and no barrier. Tiles walk
// the rows first, so that neighbouring threads share their columns. A sum is four chains of fma over k mod 4, added
// at the end as (0+1)+(2+3), as in linear-matvec.wgsl: both give the same bits. Prepend a weight-*.wgsl.
struct Params {
  outputs: u32,
  words: u32,
  rowWords: u32,
  inputWords: u32,
  outputStride: u32,
  outputAt: u32,
  accumulate: u32,
  countWord: u32,
  firstColumn: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> weights: array<WeightWord>;
@group(0) @binding(3) var<storage, read> input: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> output: array<f32>;

fn store(column: u32, row: u32, lanes: vec4<f32>) {
  if (row >= params.outputs || params.firstColumn + column >= step[params.countWord]) {
    return;
  }
  let at = column * params.outputStride + params.outputAt + row;
  let sum = (lanes.x + lanes.y) + (lanes.z + lanes.w);
  if (params.accumulate == 1u) {
    output[at] = output[at] + sum;
  } else {
    output[at] = sum;
  }
}

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let tile = (group.y * groups.x + group.x) * 64u + lane;
  let rowTiles = (params.outputs + 3u) / 4u;
  let row = (tile % rowTiles) * 4u;
  let column = (tile / rowTiles) * 4u;
  let count = step[params.countWord];
  if (params.firstColumn + column >= count) {
    return;
  }
  // Rows and columns past the end repeat the last one, and are not stored.
  let lastRow = params.outputs - 1u;
  let lastColumn = count - 1u;
  let w0 = min(row + 0u, lastRow) * params.rowWords;
  let w1 = min(row + 1u, lastRow) * params.rowWords;
  let w2 = min(row + 2u, lastRow) * params.rowWords;
  let w3 = min(row + 3u, lastRow) * params.rowWords;
  let x0 = min(params.firstColumn + column + 0u, lastColumn) * params.inputWords;
  let x1 = min(params.firstColumn + column + 1u, lastColumn) * params.inputWords;
  let x2 = min(params.firstColumn + column + 2u, lastColumn) * params.inputWords;
  let x3 = min(params.firstColumn + column + 3u, lastColumn) * params.inputWords;
  var s00 = vec4<f32>();
  var s01 = vec4<f32>();
  var s02 = vec4<f32>();
  var s03 = vec4<f32>();
  var s10 = vec4<f32>();
  var s11 = vec4<f32>();
  var s12 = vec4<f32>();
  var s13 = vec4<f32>();
  var s20 = vec4<f32>();
  var s21 = vec4<f32>();
  var s22 = vec4<f32>();
  var s23 = vec4<f32>();
  var s30 = vec4<f32>();
  var s31 = vec4<f32>();
  var s32 = vec4<f32>();
  var s33 = vec4<f32>();
  for (var word = 0u; word < params.words; word++) {
    let a0 = weightUnpack(weights[w0 + word]);
    let a1 = weightUnpack(weights[w1 + word]);
    let a2 = weightUnpack(weights[w2 + word]);
    let a3 = weightUnpack(weights[w3 + word]);
    let b0 = input[x0 + word];
    let b1 = input[x1 + word];
    let b2 = input[x2 + word];
    let b3 = input[x3 + word];
    s00 = fma(a0, b0, s00);
    s01 = fma(a0, b1, s01);
    s02 = fma(a0, b2, s02);
    s03 = fma(a0, b3, s03);
    s10 = fma(a1, b0, s10);
    s11 = fma(a1, b1, s11);
    s12 = fma(a1, b2, s12);
    s13 = fma(a1, b3, s13);
    s20 = fma(a2, b0, s20);
    s21 = fma(a2, b1, s21);
    s22 = fma(a2, b2, s22);
    s23 = fma(a2, b3, s23);
    s30 = fma(a3, b0, s30);
    s31 = fma(a3, b1, s31);
    s32 = fma(a3, b2, s32);
    s33 = fma(a3, b3, s33);
  }
  store(column + 0u, row + 0u, s00);
  store(column + 1u, row + 0u, s01);
  store(column + 2u, row + 0u, s02);
  store(column + 3u, row + 0u, s03);
  store(column + 0u, row + 1u, s10);
  store(column + 1u, row + 1u, s11);
  store(column + 2u, row + 1u, s12);
  store(column + 3u, row + 1u, s13);
  store(column + 0u, row + 2u, s20);
  store(column + 1u, row + 2u, s21);
  store(column + 2u, row + 2u, s22);
  store(column + 3u, row + 2u, s23);
  store(column + 0u, row + 3u, s30);
  store(column + 1u, row + 3u, s31);
  store(column + 2u, row + 3u, s32);
  store(column + 3u, row + 3u, s33);
}
