// A row's draw over all of it: the head's tokens first, then the others by (strand, id). Part of row-stats.wgsl.
//
// Where nothing is filtered, that is the draw. Else up to ROUNDS of them, each at a uniform of its own, until one stays:
// what stays is so drawn by its weight. Whether one stays depends on the weight before it in the order by logit, which
// weigh-above.wgsl finds.

const ALL = 3.0e38;

// Called by all threads together; true where the row may have to be searched.
fn ofStrands(lane: u32, draw: Draw, count: u32, headMass: f32) -> bool {
  let headKey = select(NONE, rows[stateAt + ROW_HEAD + max(count, 1u) - 1u], count > 0u);
  let headId = select(NONE, rows[stateAt + ROW_HEAD + HEAD_MOST + max(count, 1u) - 1u], count > 0u);
  // Without a head, all are outside.
  let headLogit = select(FLOAT_MAX, keyLogit(headKey), count > 0u);
  let tailAt = stateAt + ROW_STRANDS + 3u * STRANDS;
  var mine = 0.0;
  for (var chunk = lane; chunk < params.chunks; chunk += STRANDS) {
    mine += tailOf(chunk, headLogit, headId);
  }
  rows[tailAt + lane] = bitcast<u32>(mine);
  storageBarrier();
  workgroupBarrier();
  for (var r = lane; r < select(1u, ROUNDS, draw.filtered); r += STRANDS) {
    var tail = 0.0;
    for (var i = 0u; i < STRANDS; i++) {
      tail += bitcast<f32>(rows[tailAt + i]);
    }
    let share = uniformOf(draw.at, r) * (headMass + tail);
    let drawAt = stateAt + ROW_DRAWS + 2u * r;
    var found: vec2<u32>;
    if (share < headMass || tail == 0.0) {
      found = headAt(share, count);
    } else {
      found = tailAtShare(share - headMass, headLogit, headId);
    }
    rows[drawAt] = found.x;
    rows[drawAt + 1u] = found.y;
  }
  storageBarrier();
  workgroupBarrier();
  if (lane != 0u) {
    return false;
  }
  var waits = 0u;
  for (var r = 0u; r < select(1u, ROUNDS, draw.filtered); r++) {
    let drawAt = stateAt + ROW_DRAWS + 2u * r;
    let key = rows[drawAt];
    if (draw.filtered && keyLogit(key) < draw.floor) {
      rows[drawAt] = NONE;
    } else if (waits == 0u && !waiting(draw, isHead(key, rows[drawAt + 1u], headKey, headId))) {
      results[draw.record * 4u] = rows[drawAt + 1u];
      return false;
    } else {
      waits = 1u;
    }
  }
  rows[stateAt + ROW_WAITS] = waits;
  rows[stateAt + ROW_MASS_LIMIT] = bitcast<u32>(draw.massLimit);
  return true;
}

// Whether the weight before a draw has to be known.
fn waiting(draw: Draw, ofHead: bool) -> bool {
  return draw.filtered && draw.massLimit < 3.0e38 && !ofHead;
}

fn isHead(key: u32, id: u32, headKey: u32, headId: u32) -> bool {
  return key > headKey || (key == headKey && id <= headId);
}

// A chunk's weight outside of the head.
fn tailOf(chunk: u32, headLogit: f32, headId: u32) -> f32 {
  let best = bitcast<f32>(chunks[chunksAt + chunk]);
  var mass = bitcast<f32>(chunks[chunksAt + 2u * params.chunks + chunk]) * weightOf(best);
  for (var open = best >= headLogit; open; open = false) {
    mass = 0.0;
    let end = endWordOf(chunk, params.vocabulary);
    for (var word = firstWordOf(chunk); word < end; word += STRANDS) {
      mass += sumOf(tailWeights(word, headLogit, headId));
    }
  }
  return mass;
}

fn sumOf(weights: vec4<f32>) -> f32 {
  return (weights.x + weights.y) + (weights.z + weights.w);
}

// Weights of a word's tokens outside of the head.
fn tailWeights(word: u32, headLogit: f32, headId: u32) -> vec4<f32> {
  let values = bitcast<vec4<f32>>(logitWord(words, word, params.vocabulary));
  let weights = exp2((max(values, vec4<f32>(weightless)) - vec4<f32>(high)) * scale);
  let ids = vec4<u32>(word * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
  let outside = (values < vec4<f32>(headLogit)) | ((values == vec4<f32>(headLogit)) & (ids > vec4<u32>(headId)));
  return select(vec4<f32>(0.0), weights, outside & (values >= vec4<f32>(weightless)));
}

// Key and id at a running weight of the strands; where rounding puts it past all, the last that has a weight.
fn tailAtShare(share: f32, headLogit: f32, headId: u32) -> vec2<u32> {
  let tailAt = stateAt + ROW_STRANDS + 3u * STRANDS;
  // Of the share, what is left for the strand, the chunk, the token; where none reaches it, for all.
  var left = share;
  var rest = ALL;
  var strand = 0u;
  for (var i = 0u; i < STRANDS; i++) {
    let mass = bitcast<f32>(rows[tailAt + i]);
    if (mass > 0.0) {
      strand = i;
      if (mass > left) {
        rest = left;
        break;
      }
      left -= mass;
    }
  }
  left = rest;
  rest = ALL;
  var chunk = strand;
  for (var i = strand; i < params.chunks; i += STRANDS) {
    let mass = tailOf(i, headLogit, headId);
    if (mass > 0.0) {
      chunk = i;
      if (mass > left) {
        rest = left;
        break;
      }
      left -= mass;
    }
  }
  left = rest;
  rest = ALL;
  let end = endWordOf(chunk, params.vocabulary);
  var word = firstWordOf(chunk);
  for (var i = word; i < end; i += STRANDS) {
    let mass = sumOf(tailWeights(i, headLogit, headId));
    if (mass > 0.0) {
      word = i;
      if (mass > left) {
        rest = left;
        break;
      }
      left -= mass;
    }
  }
  left = rest;
  let weights = tailWeights(word, headLogit, headId);
  var place = 0u;
  for (var i = 0u; i < 4u; i++) {
    if (weights[i] > 0.0) {
      place = i;
      if (weights[i] > left) {
        break;
      }
      left -= weights[i];
    }
  }
  return vec2<u32>(bitsKey(logitWord(words, word, params.vocabulary)[place]), word * 4u + place);
}
