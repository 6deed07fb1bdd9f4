// hidden[r] += scale * weight * x / sqrt(mean(x^2) + epsilon), x = branch[r]: a branch whose output is normed goes back into
// the residual stream. Where `emits` is 1 it leaves what a product of the next norm asks for, as norm-input.wgsl does.
//
//   step     metadata; rows = step[0]
//   branch   [rows, stride] f32
//   weight   [stride] f32
//   hidden   [rows, stride] f32
//   gain     [stride] f32, the next norm's weights
//   scaled   [rows, stride] f32
//   squares  [rows, lanes] f32
//
// A workgroup a row. Each thread sums every 64th number, then all of them add the sums in order; then a thread takes the
// eight numbers of one of `squares` at a time.
struct Params {
  columns: u32,
  stride: u32,
  lanes: u32,
  epsilon: f32,
  scale: f32,
  emits: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> branch: array<f32>;
@group(0) @binding(3) var<storage, read> weight: array<f32>;
@group(0) @binding(4) var<storage, read_write> hidden: array<f32>;
@group(0) @binding(5) var<storage, read> gain: array<f32>;
@group(0) @binding(6) var<storage, read_write> scaled: array<f32>;
@group(0) @binding(7) var<storage, read_write> squares: array<f32>;

var<workgroup> sums: array<f32, 64>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group.y * groups.x + group.x;
  if (row >= step[0]) {
    return;
  }
  let begin = row * params.stride;
  var own = 0.0;
  for (var column = lane; column < params.columns; column += 64u) {
    let x = branch[begin + column];
    own = fma(x, x, own);
  }
  sums[lane] = own;
  workgroupBarrier();
  var total = 0.0;
  for (var i = 0u; i < min(64u, params.columns); i++) {
    total += sums[i];
  }
  let factor = params.scale / sqrt(total / f32(params.columns) + params.epsilon);
  for (var at = lane; at < params.lanes; at += 64u) {
    var sum = 0.0;
    for (var i = 0u; i < 8u; i++) {
      let column = at / 8u * 64u + at % 8u + 8u * i;
      if (column < params.columns) {
        let x = fma(branch[begin + column] * factor, weight[column], hidden[begin + column]);
        hidden[begin + column] = x;
        if (params.emits == 1u) {
          scaled[begin + column] = x * gain[column];
        }
        sum = fma(x, x, sum);
      }
    }
    if (params.emits == 1u) {
      squares[row * params.lanes + at] = sum;
    }
  }
}
