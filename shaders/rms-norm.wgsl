// output[r] = weight * x / sqrt(mean(x^2) + epsilon), x = input[r], or input[row of logits row r] where gather is 1.
//
//   step    metadata; rows to norm = step[countWord]
//   input   [rows, words] vec4, lanes past `columns` are zero
//   weight  [words] vec4, lanes past `columns` are zero
//   output  [rows, words] vec4
//
// A workgroup a row. Each thread sums every 64th word, then all of them add the sums in order: one barrier, and
// an order that follows from the row's length only.
struct Params {
  columns: u32,
  words: u32,
  epsilon: f32,
  gather: u32,
  countWord: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> input: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> output: array<vec4<f32>>;

var<workgroup> sums: array<f32, 64>;

@compute @workgroup_size(64)
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
  let begin = source * params.words;
  var squares = vec4<f32>();
  for (var word = lane; word < params.words; word += 64u) {
    let x = input[begin + word];
    squares = fma(x, x, squares);
  }
  sums[lane] = (squares.x + squares.y) + (squares.z + squares.w);
  workgroupBarrier();
  var sum = 0.0;
  for (var i = 0u; i < min(64u, params.words); i++) {
    sum += sums[i];
  }
  let scale = 1.0 / sqrt(sum / f32(params.columns) + params.epsilon);
  for (var word = lane; word < params.words; word += 64u) {
    output[row * params.words + word] = input[begin + word] * scale * weight[word];
  }
}
