// Of a row's draws that wait, the weight of what is before each in the order (logit descending, id ascending):
//
//   above[row, r, chunk] = sum of exp((logit - high) / T) of the chunk's tokens before draw r
//
//   step    metadata; logits rows = step[2]
//   logits  logit-words*.wgsl
//   chunks, rows  sampler-state.wgsl
//   above   [tile rows, 4, chunks] f32
//
// Threads as in chunk-stats.wgsl, of some regions: few come first, and are often enough for accept-draw.wgsl. A chunk whose
// best is below all draws isn't read. Prepend step, logit-key, sampler-state and
// logit-words.
struct Params {
  vocabulary: u32,
  chunks: u32,
  firstRow: u32,
  tileRows: u32,
  firstRegion: u32,
  regions: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read> chunks: array<u32>;
@group(0) @binding(4) var<storage, read> rows: array<u32>;
@group(0) @binding(5) var<storage, read_write> above: array<f32>;

var<private> high: f32;
var<private> scale: f32;
// Below this logit weights are 0.
var<private> weightless: f32;
var<private> words: u32;
var<private> stateAt: u32;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let part = group.y * groups.x + group.x;
  let row = part / params.regions;
  if (row >= params.tileRows || params.firstRow + row >= step[STEP_LOGITS]) {
    return;
  }
  stateAt = row * ROW_STATE;
  if (rows[stateAt + ROW_WAITS] == 0u) {
    return;
  }
  let drawn = drawnLogits();
  high = bitcast<f32>(rows[stateAt + ROW_HIGH]);
  scale = log2ScaleOf(bitcast<f32>(rows[stateAt + ROW_TEMPERATURE]));
  weightless = lowestLogit(high, scale, 200.0);
  words = wordsOf(row, params.vocabulary);
  let least = min(min(drawn.x, drawn.y), min(drawn.z, drawn.w));
  let chunk = (params.firstRegion + part % params.regions) * STRANDS + lane;
  var masses = vec4<f32>(0.0);
  for (var some = bitcast<f32>(chunks[row * CHUNK_WORDS * params.chunks + chunk]) >= least; some; some = false) {
    masses = weighChunk(chunk, params.vocabulary, drawn, drawnIds());
  }
  let aboveAt = row * ROUNDS * params.chunks + chunk;
  above[aboveAt] = masses.x;
  above[aboveAt + params.chunks] = masses.y;
  above[aboveAt + 2u * params.chunks] = masses.z;
  above[aboveAt + 3u * params.chunks] = masses.w;
}

fn drawnLogits() -> vec4<f32> {
  let draws = stateAt + ROW_DRAWS;
  return vec4<f32>(logitOf(draws), logitOf(draws + 2u), logitOf(draws + 4u), logitOf(draws + 6u));
}

fn drawnIds() -> vec4<u32> {
  let ids = stateAt + ROW_DRAWS + 1u;
  return vec4<u32>(rows[ids], rows[ids + 2u], rows[ids + 4u], rows[ids + 6u]);
}

// Of what is out of question, a logit that nothing is above.
fn logitOf(drawAt: u32) -> f32 {
  let key = rows[drawAt];
  return select(keyLogit(key), FLOAT_MAX, key == NONE);
}

fn weighChunk(chunk: u32, vocabulary: u32, drawn: vec4<f32>, ids: vec4<u32>) -> vec4<f32> {
  let end = endWordOf(chunk, vocabulary);
  var sums0: vec4<f32>;
  var sums1: vec4<f32>;
  var sums2: vec4<f32>;
  var sums3: vec4<f32>;
  var ties: vec4<f32>;
  for (var word = firstWordOf(chunk); word < end; word += STRANDS) {
    // Ids past the end are masked.
    let values = bitcast<vec4<f32>>(logitWord(words, word, vocabulary));
    let weights = exp2((max(values, vec4<f32>(weightless)) - vec4<f32>(high)) * scale);
    sums0 += select(vec4<f32>(0.0), weights, values > vec4<f32>(drawn.x));
    sums1 += select(vec4<f32>(0.0), weights, values > vec4<f32>(drawn.y));
    sums2 += select(vec4<f32>(0.0), weights, values > vec4<f32>(drawn.z));
    sums3 += select(vec4<f32>(0.0), weights, values > vec4<f32>(drawn.w));
    let tied = (values == vec4<f32>(drawn.x)) | (values == vec4<f32>(drawn.y)) | (values == vec4<f32>(drawn.z)) |
      (values == vec4<f32>(drawn.w));
    for (var some = any(tied); some; some = false) {
      for (var i = 0u; i < 4u; i++) {
        let before = (vec4<f32>(values[i]) == drawn) & (vec4<u32>(word * 4u + i) < ids);
        ties += select(vec4<f32>(0.0), vec4<f32>(weights[i]), before);
      }
    }
  }
  return vec4<f32>(sumOf(sums0), sumOf(sums1), sumOf(sums2), sumOf(sums3)) + ties;
}
