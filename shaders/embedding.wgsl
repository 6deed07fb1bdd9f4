// output[r] = scale * weights[id(r)]: the rows of the embedding matrix that the step's tokens name; with POSITIONS
// output[r] += scale * weights[position(r)], of a learned position embedding.
//
//   step     metadata; rows to embed = step[0]
//   weights  [rows of this part, rowWords] words in tiles of 64 rows, and scales, as its weight-*.wgsl says
//   lastIds  [maxSequences] the id each slot sampled last
//   output   [maxRows, 4 words] f32
//
// A matrix cut into parts has one dispatch a part: each writes the ids it holds, and no other. A row whose embedding is
// given finds it in the output already. With NORM_INPUT it leaves what the first norm's product asks for, too, as
// norm-input.wgsl has it: then a thread takes the eight numbers of one sum of squares, else four neighbours.
// A template; prepend step.wgsl and the files of the weight's format.
struct Params {
  firstId: u32,
  ids: u32,
  columns: u32,
  words: u32,
  rowWords: u32,
  // Threads of a row.
  lanes: u32,
  scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> weights: array<WeightWord>;
@group(0) @binding(3) var<storage, read> lastIds: array<u32>;
@group(0) @binding(4) var<storage, read_write> output: array<f32>;
#if NORM_INPUT
@group(0) @binding(5) var<storage, read> gain: array<f32>;
@group(0) @binding(6) var<storage, read_write> scaled: array<f32>;
@group(0) @binding(7) var<storage, read_write> squares: array<f32>;
#end

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (group.y * groups.x + group.x) * 64u + lane;
  let row = index / params.lanes;
  let own = index % params.lanes;
  if (row >= step[STEP_ROWS]) {
    return;
  }
  #if POSITIONS
  let id = stepPosition(row);
  #end
  #if TOKENS
  let at = step[STEP_ROWS_AT] + row * 4u;
  let embedded = step[at + 3u] == TOKEN_EMBEDDED;
  var id = step[at + 2u];
  if (step[at + 3u] == TOKEN_OF_SLOT) {
    id = lastIds[step[stepSequenceAt(row)]];
  }
  if (embedded) {
    // The part that has id 0 takes it.
    id = 0u;
  }
  #end
  if (id < params.firstId || id - params.firstId >= params.ids) {
    return;
  }
  let begin = row * params.words * 4u;
  #if NORM_INPUT
  var sum = 0.0;
  for (var i = 0u; i < 8u; i++) {
    let column = own / 8u * 64u + own % 8u + 8u * i;
    if (column < params.columns) {
      var x = 0.0;
      if (embedded) {
        x = output[begin + column];
      } else {
        x = weightAt(id - params.firstId, column / 4u, params.rowWords)[column % 4u] * params.scale;
        output[begin + column] = x;
      }
      scaled[begin + column] = x * gain[column];
      sum = fma(x, x, sum);
    }
  }
  squares[index] = sum;
  #end
  #if PLAIN
  if (!embedded) {
    let values = weightAt(id - params.firstId, own, params.rowWords);
    for (var i = 0u; i < 4u; i++) {
      output[begin + own * 4u + i] = values[i] * params.scale;
    }
  }
  #end
  #if POSITIONS
  let values = weightAt(id - params.firstId, own, params.rowWords);
  for (var i = 0u; i < 4u; i++) {
    output[begin + own * 4u + i] += values[i] * params.scale;
  }
  #end
}
