// output[r, i] = gate / (1 + exp(-gate)) * up, gate = input[r, i], up = input[r, columns + i].
//
//   step    metadata; rows = step[0]
//   input   [rows, inputStride] f32: gate, then up, as their fused product leaves them
//   output  [rows, outputStride] f32
//
// A thread an element. exp's argument is bounded: a shader may assume that no infinity occurs.
struct Params {
  columns: u32,
  inputStride: u32,
  outputStride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> input: array<f32>;
@group(0) @binding(3) var<storage, read_write> output: array<f32>;

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
  let gate = input[row * params.inputStride + column];
  let up = input[row * params.inputStride + params.columns + column];
  // Not min(-gate, 80): that would turn a NaN into a number, and hide it from the check on the logits.
  var power = -gate;
  if (power > 80.0) {
    power = 80.0;
  }
  output[row * params.outputStride + column] = gate / (1.0 + exp(power)) * up;
}
