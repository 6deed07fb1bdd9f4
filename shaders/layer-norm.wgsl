// output[r] = weight * (x - mean(x)) / sqrt(variance(x) + epsilon) + bias, x = input[r], plus residual[r] where
// `residual` is 1; input[row of logits row r] where `gather` is 1.
//
//   step      metadata; rows to norm = step[countWord]
//   input     [rows, stride] f32
//   weight    [stride] f32
//   bias      [stride] f32
//   residual  [rows, stride] f32, not gathered
//   output    [rows, stride] f32, another buffer
//
// A workgroup of THREADS a row, few where a processor plays the GPU: barriers cost it by the thread. Each sums every
// THREADS-th number, then all of them add the sums in order: those of x, then, since the mean of squares less the square of
// the mean cancels, those of (x - mean)^2. Prepend step.wgsl and `const THREADS`.
struct Params {
  columns: u32,
  stride: u32,
  epsilon: f32,
  gather: u32,
  countWord: u32,
  residual: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> input: array<f32>;
@group(0) @binding(3) var<storage, read> weight: array<f32>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read> residual: array<f32>;
@group(0) @binding(6) var<storage, read_write> output: array<f32>;

var<workgroup> sums: array<f32, THREADS>;

fn numberOf(begin: u32, row: u32, column: u32) -> f32 {
  let x = input[begin + column];
  if (params.residual == 1u) {
    return x + residual[row * params.stride + column];
  }
  return x;
}

fn total() -> f32 {
  var sum = 0.0;
  for (var i = 0u; i < min(THREADS, params.columns); i++) {
    sum += sums[i];
  }
  return sum;
}

@compute @workgroup_size(THREADS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group.y * groups.x + group.x;
  if (row >= step[params.countWord]) {
    return;
  }
  var source = row;
  if (params.gather == 1u) {
    source = step[step[STEP_LOGITS_AT] + row * 16u];
  }
  let begin = source * params.stride;
  var own = 0.0;
  for (var column = lane; column < params.columns; column += THREADS) {
    own += numberOf(begin, row, column);
  }
  sums[lane] = own;
  workgroupBarrier();
  let mean = total() / f32(params.columns);
  workgroupBarrier();
  own = 0.0;
  for (var column = lane; column < params.columns; column += THREADS) {
    let x = numberOf(begin, row, column) - mean;
    own = fma(x, x, own);
  }
  sums[lane] = own;
  workgroupBarrier();
  let factor = 1.0 / sqrt(total() / f32(params.columns) + params.epsilon);
  for (var column = lane; column < params.columns; column += THREADS) {
    let x = (numberOf(begin, row, column) - mean) * factor;
    output[row * params.stride + column] = fma(x, weight[column], bias[column]);
  }
}
