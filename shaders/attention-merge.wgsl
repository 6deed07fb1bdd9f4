// output[r, h] = the parts of row r and head h, merged in the order of their keys.
//
//   step    metadata; rows = split rows
//   parts   [split items, heads, 1 + headWords] vec4: (maximum, sum, 0, 0), then the values
//   output  [maxRows, heads, headWords] vec4
//
// A thread merges one word of one head: every thread walks the same few maxima, none waits for another. The
// expressions are those of attention-whole.wgsl, from the same split on: parts behind a layer's window weren't made,
// since the list of parts is that of the layers that see most. Prepend step and attention-merge-rule.
struct Params {
  heads: u32,
  headWords: u32,
  // Keys a row sees, itself included; 0: all of them.
  window: u32,
}

const SPLIT_KEYS = 64u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> parts: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> output: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (group.y * groups.x + group.x) * 64u + lane;
  let word = index % params.headWords;
  let head = (index / params.headWords) % params.heads;
  let entry = index / params.headWords / params.heads;
  if (entry >= step[STEP_SPLIT_ROWS]) {
    return;
  }
  let at = step[STEP_SPLIT_ROWS_AT] + entry * 2u;
  let row = step[at];
  let first = step[at + 1u];
  // Items of a row are neighbours; the next row's first item, or the count, ends them.
  var end = step[STEP_SPLIT_ITEMS];
  if (entry + 1u < step[STEP_SPLIT_ROWS]) {
    end = step[at + 3u];
  }
  // The row's first part is of this split, or of one before it.
  let position = stepPosition(row);
  var begin = first;
  if (params.window > 0u && position + 1u > params.window) {
    let split = (position + 1u - params.window) / SPLIT_KEYS;
    begin += split - step[step[STEP_SPLIT_ITEMS_AT] + first * 2u + 1u];
  }
  var rowMaximum = -3.0e38;
  var sum = 0.0;
  var value = vec4<f32>();
  for (var item = begin; item < end; item++) {
    let partAt = (item * params.heads + head) * (params.headWords + 1u);
    let part = parts[partAt];
    let factors = mergeFactors(rowMaximum, part.x);
    rowMaximum = max(rowMaximum, part.x);
    sum = fma(sum, factors.x, part.y * factors.y);
    value = fma(value, vec4<f32>(factors.x), parts[partAt + 1u + word] * factors.y);
  }
  output[(row * params.heads + head) * params.headWords + word] = value / sum;
}
