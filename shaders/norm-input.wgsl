// What a NORMED product (linear.wgsl) asks for of rows of the residual stream, where no product left it:
//
//   scaled[r, k] = gain[k] * input[r, k]
//   squares[r, 8 tile + lane] = the sum of input[r, k]^2 over k = 64 tile + lane, + 8, … in this order, lane 0 … 7
//
//   step     metadata; rows = step[0]
//   input    [rows, stride] f32
//   gain     [stride] f32
//
// A thread eight numbers, one of `squares`.
struct Params {
  columns: u32,
  stride: u32,
  lanes: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> input: array<f32>;
@group(0) @binding(3) var<storage, read> gain: array<f32>;
@group(0) @binding(4) var<storage, read_write> scaled: array<f32>;
@group(0) @binding(5) var<storage, read_write> squares: array<f32>;

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
  var sum = 0.0;
  for (var i = 0u; i < 8u; i++) {
    let column = own / 8u * 64u + own % 8u + 8u * i;
    if (column < params.columns) {
      let x = input[row * params.stride + column];
      scaled[row * params.stride + column] = x * gain[column];
      sum = fma(x, x, sum);
    }
  }
  squares[index] = sum;
}
