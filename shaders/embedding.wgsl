// output[r] = weights[id(r)]: the rows of the embedding matrix that the step's tokens name.
//
//   step     metadata; rows to embed = step[0]
//   weights  [rows of this part, rowWords] words in tiles of 64 rows, and scales, as its weight-*.wgsl says
//   lastIds  [maxSequences] the id each slot sampled last
//   output   [maxRows, words] vec4
//
// A thread copies four numbers. A matrix cut into parts has one dispatch a part: each writes the ids it holds, and no
// other. A row whose embedding is given finds it in the output already. Prepend step.wgsl and
// the files of the weight's format.
struct Params {
  firstId: u32,
  ids: u32,
  words: u32,
  rowWords: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> weights: array<WeightWord>;
@group(0) @binding(3) var<storage, read> lastIds: array<u32>;
@group(0) @binding(4) var<storage, read_write> output: array<vec4<f32>>;

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
  let at = step[STEP_ROWS_AT] + row * 4u;
  if (step[at + 3u] == TOKEN_EMBEDDED) {
    return;
  }
  var id = step[at + 2u];
  if (step[at + 3u] == TOKEN_OF_SLOT) {
    id = lastIds[step[stepSequenceAt(row)]];
  }
  if (id < params.firstId || id - params.firstId >= params.ids) {
    return;
  }
  output[index] = weightAt(id - params.firstId, word, params.rowWords);
}
