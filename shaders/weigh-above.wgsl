// Of a row's draws that wait, the weight of what is before each in the order (logit descending, id ascending):
//
//   above[row, r, chunk] = sum of exp((logit - high) / T) of the chunk's tokens before draw r
//
//   step    metadata; logits rows = step[2]
//   logits  logit-words*.wgsl
//   chunks, rows  sampler-state.wgsl
//   above   [tile rows, 4, chunks] f32
//
// Threads as in chunk-stats.wgsl, of some draws and regions: the first draw in few regions is often enough for
// accept-draw.wgsl, and comes first. A chunk whose best is below the draw isn't read. Prepend step, logit-key,
// sampler-state and logit-words.
struct Params {
  vocabulary: u32,
  chunks: u32,
  firstRow: u32,
  tileRows: u32,
  firstRegion: u32,
  regions: u32,
  // Of rows whose draws wait from the first of these on.
  firstDraw: u32,
  draws: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read> chunks: array<u32>;
@group(0) @binding(4) var<storage, read> rows: array<u32>;
@group(0) @binding(5) var<storage, read_write> above: array<f32>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let part = group.y * groups.x + group.x;
  let row = part / (params.regions * params.draws);
  if (row >= params.tileRows || params.firstRow + row >= step[STEP_LOGITS]) {
    return;
  }
  let stateAt = row * ROW_STATE;
  if (rows[stateAt + ROW_WAITS] != params.firstDraw + 1u) {
    return;
  }
  let r = params.firstDraw + part / params.regions % params.draws;
  let key = rows[stateAt + ROW_DRAWS + 2u * r];
  let id = rows[stateAt + ROW_DRAWS + 2u * r + 1u];
  // What is out of question: nothing is above it.
  let drawn = select(keyLogit(key), FLOAT_MAX, key == NONE);
  let high = bitcast<f32>(rows[stateAt + ROW_HIGH]);
  let scale = log2ScaleOf(bitcast<f32>(rows[stateAt + ROW_TEMPERATURE]));
  let chunk = (params.firstRegion + part % params.regions) * STRANDS + lane;
  let end = endWordOf(chunk, params.vocabulary);
  let words = wordsOf(row, params.vocabulary);
  var word = select(end, firstWordOf(chunk), bitcast<f32>(chunks[row * CHUNK_WORDS * params.chunks + chunk]) >= drawn);
  // Below this logit weights are 0.
  let span = Span(high, lowestLogit(high, scale, 200.0), scale);
  let last = id / 4u;
  var sums = vec4<f32>(0.0);
  for (; word + 3u * STRANDS < end; word += 4u * STRANDS) {
    let logits0 = bitcast<vec4<f32>>(logitWord(words, word, params.vocabulary));
    let logits1 = bitcast<vec4<f32>>(logitWord(words, word + STRANDS, params.vocabulary));
    let logits2 = bitcast<vec4<f32>>(logitWord(words, word + 2u * STRANDS, params.vocabulary));
    let logits3 = bitcast<vec4<f32>>(logitWord(words, word + 3u * STRANDS, params.vocabulary));
    sums += weightsAbove(logits0, drawn, word < last, span) + weightsAbove(logits1, drawn, word + STRANDS < last, span);
    sums += weightsAbove(logits2, drawn, word + 2u * STRANDS < last, span) +
      weightsAbove(logits3, drawn, word + 3u * STRANDS < last, span);
  }
  // The vocabulary's end. Ids past it are masked.
  for (; word < end; word += STRANDS) {
    let logits = bitcast<vec4<f32>>(logitWord(words, word, params.vocabulary));
    sums += weightsAbove(logits, drawn, word < last, span);
  }
  // Ties in the draw's own word.
  for (var own = key != NONE && last >= firstWordOf(chunk) && last < end && last % STRANDS == lane; own; own = false) {
    let logits = bitcast<vec4<f32>>(logitWord(words, last, params.vocabulary));
    let before = vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(id % 4u);
    sums += select(vec4<f32>(0.0), weightsAbove(logits, drawn, true, span), (logits == vec4<f32>(drawn)) & before);
  }
  above[(row * ROUNDS + r) * params.chunks + chunk] = sumOf(sums);
}

struct Span {
  high: f32,
  weightless: f32,
  scale: f32,
}

// Weights of a word's tokens that are above a draw, or equal to it and `earlier`.
fn weightsAbove(logits: vec4<f32>, drawn: f32, earlier: bool, span: Span) -> vec4<f32> {
  let weights = exp2((max(logits, vec4<f32>(span.weightless)) - vec4<f32>(span.high)) * span.scale);
  let before = (logits > vec4<f32>(drawn)) | ((logits == vec4<f32>(drawn)) & vec4<bool>(earlier));
  return select(vec4<f32>(0.0), weights, before);
}
