// output[r, i] = activation(input[r, i] + bias[i]), or of a gated network times (input[r, columns + i] + bias[columns + i]).
//
//   step    metadata; rows = step[0]
//   input   [rows, inputStride] f32: of a gated network gate, then up, as their product leaves them
//   bias    as a row of input; where there is one
//   output  [rows, outputStride] f32
//
// A thread an element. Prepend activation.wgsl.
struct Params {
  columns: u32,
  inputStride: u32,
  outputStride: u32,
  activation: u32,
  gated: u32,
  biased: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> input: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> output: array<f32>;

fn biasedAt(row: u32, column: u32) -> f32 {
  let x = input[row * params.inputStride + column];
  if (params.biased == 1u) {
    return x + bias[column];
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
  let row = index / params.columns;
  let column = index % params.columns;
  if (row >= step[0]) {
    return;
  }
  var value = activate(params.activation, biasedAt(row, column));
  if (params.gated == 1u) {
    value *= biasedAt(row, params.columns + column);
  }
  output[row * params.outputStride + column] = value;
}
