// output[c, outputAt + r] (+)= sum over k of weights[r, k] * input[firstColumn + c, k], for up to COLUMNS columns c.
//
//   step     metadata; columns there are = step[countWord]
//   weights  [outputs, rowWords] words of four weights, zero past K
//   input    [columns, inputWords] vec4, zero past K
//   output   [columns, outputStride] f32
//
// A thread owns one row of weights, reads it once for all columns, and meets no barrier. The sum is four chains of
// fma over k mod 4, added at the end as (0+1)+(2+3): linear-matmul.wgsl has the same order, so both give the same
// bits. Prepend `const COLUMNS` (1 to 8) and a weight-*.wgsl.
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
  if (params.firstColumn + column >= step[params.countWord]) {
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
  let row = (group.y * groups.x + group.x) * 64u + lane;
  if (row >= params.outputs) {
    return;
  }
  let stride = params.inputWords;
  let weightAt = row * params.rowWords;
  let inputAt = params.firstColumn * stride;
  var s0 = vec4<f32>();
  var s1 = vec4<f32>();
  var s2 = vec4<f32>();
  var s3 = vec4<f32>();
  var s4 = vec4<f32>();
  var s5 = vec4<f32>();
  var s6 = vec4<f32>();
  var s7 = vec4<f32>();
  for (var word = 0u; word < params.words; word++) {
    let w = weightUnpack(weights[weightAt + word]);
    let at = inputAt + word;
    s0 = fma(w, input[at], s0);
    if (COLUMNS > 1u) { s1 = fma(w, input[at + stride], s1); }
    if (COLUMNS > 2u) { s2 = fma(w, input[at + 2u * stride], s2); }
    if (COLUMNS > 3u) { s3 = fma(w, input[at + 3u * stride], s3); }
    if (COLUMNS > 4u) { s4 = fma(w, input[at + 4u * stride], s4); }
    if (COLUMNS > 5u) { s5 = fma(w, input[at + 5u * stride], s5); }
    if (COLUMNS > 6u) { s6 = fma(w, input[at + 6u * stride], s6); }
    if (COLUMNS > 7u) { s7 = fma(w, input[at + 7u * stride], s7); }
  }
  store(0u, row, s0);
  if (COLUMNS > 1u) { store(1u, row, s1); }
  if (COLUMNS > 2u) { store(2u, row, s2); }
  if (COLUMNS > 3u) { store(3u, row, s3); }
  if (COLUMNS > 4u) { store(4u, row, s4); }
  if (COLUMNS > 5u) { store(5u, row, s5); }
  if (COLUMNS > 6u) { store(6u, row, s6); }
  if (COLUMNS > 7u) { store(7u, row, s7); }
}
