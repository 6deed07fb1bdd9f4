// output[r] = (words[id(r)] + types[type(r)]) + positions[position(r)]: what an encoder reads of an id, its place and its
// token type.
//
//   step       metadata; rows to embed = step[0]
//   rows       [maxRows] vec4<u32>: id, position, token type, unused
//   weights    [rows of this part, rowWords] words in tiles of 64 rows, and scales, as its weight-*.wgsl says
//   types      [types, words] vec4
//   positions  [positions, words] vec4
//   output     [maxRows, words] vec4
//
// A thread writes one word. A word matrix cut into parts has one dispatch a part: each writes the rows whose ids it
// holds, and no other. Positions are not the step's, which say where keys lie: an encoder may count them otherwise.
// Prepend step.wgsl and the files of the weight's format.
struct Params {
  firstId: u32,
  ids: u32,
  words: u32,
  rowWords: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> weights: array<WeightWord>;
@group(0) @binding(3) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> types: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> positions: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> output: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (group.y * groups.x + group.x) * 64u + lane;
  let row = index / params.words;
  let word = index % params.words;
  if (row >= step[STEP_ROWS]) {
    return;
  }
  let source = rows[row];
  if (source.x < params.firstId || source.x - params.firstId >= params.ids) {
    return;
  }
  let embedded = weightAt(source.x - params.firstId, word, params.rowWords);
  output[index] = (embedded + types[source.z * params.words + word]) + positions[source.y * params.words + word];
}
