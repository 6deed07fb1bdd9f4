// What the chosen experts made of a row, each by its share:
//
//   sum[r, k] = shares[r, 0] * made[r, 0, k] + shares[r, 1] * made[r, 1, k] + …  in this order
//
// stored, output = sum; or added to the residual stream, output += scale * sum. Emitting then leaves what a product of the
// next norm asks for, as linear.wgsl's emit does: scaled[r, k] = gain[k] * output[r, k], and squares[r, 8 tile + lane], the
// sum of output[r, k]^2 over k = 64 tile + lane, + 8, … in this order, lane 0 … 7.
//
//   step     metadata; rows = step[0]
//   shares   [rows, chosen] f32
//   made     [rows, chosen, stride] f32
//   output, scaled  [rows, stride] f32
//   gain     [stride] f32
//
// A thread eight numbers, one of `squares`.
struct Params {
  columns: u32,
  stride: u32,
  lanes: u32,
  chosen: u32,
  // 0: stored, 1: added, 2: added and emitted.
  finish: u32,
  scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> shares: array<f32>;
@group(0) @binding(3) var<storage, read> made: array<f32>;
@group(0) @binding(4) var<storage, read_write> output: array<f32>;
@group(0) @binding(5) var<storage, read> gain: array<f32>;
@group(0) @binding(6) var<storage, read_write> scaled: array<f32>;
@group(0) @binding(7) var<storage, read_write> squares: array<f32>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (group.y * groups.x + group.x) * 64u + lane;
  let row = index / params.lanes;
  if (row >= step[0]) {
    return;
  }
  let own = index % params.lanes;
  var ofSquares = 0.0;
  for (var i = 0u; i < 8u; i++) {
    let column = own / 8u * 64u + own % 8u + 8u * i;
    if (column < params.columns) {
      var sum = 0.0;
      for (var j = 0u; j < params.chosen; j++) {
        let entry = row * params.chosen + j;
        sum = fma(shares[entry], made[entry * params.stride + column], sum);
      }
      let to = row * params.stride + column;
      if (params.finish == 0u) {
        output[to] = sum;
      } else {
        let x = fma(params.scale, sum, output[to]);
        output[to] = x;
        if (params.finish == 2u) {
          scaled[to] = x * gain[column];
          ofSquares = fma(x, x, ofSquares);
        }
      }
    }
  }
  if (params.finish == 2u) {
    squares[index] = ofSquares;
  }
}
