// A row's draw over all of it: the head's tokens first, then the others by (strand, id). Part of row-stats.wgsl.
//
// Where nothing is filtered, that is the draw. Else up to ROUNDS of them, each at a uniform of its own, until one stays:
// what stays is so drawn by its weight. Whether one stays depends on the weight before it in the order by logit.

const ALL = 3.0e38;

// Leaves to the strands their weights outside of the head.
fn leaveTails(head: Head, some: bool) {
  for (var i = select(head.count, 0u, some); i < head.count; i++) {
    let at = stateAt + ROW_STRANDS + STRANDS + rows[stateAt + ROW_HEAD + HEAD_MOST + i] / 4u % STRANDS;
    rows[at] = bitcast<u32>(bitcast<f32>(rows[at]) - headWeight(i));
  }
}

// The head's draw, or a round's of the whole row, which goes to the row's state.
fn drawOne(r: u32, draw: Draw, head: Head, uniform01: f32) {
  let drawAt = stateAt + ROW_DRAWS + 2u * r;
  let share = uniform01 * select(draw.total, head.mass, head.decides);
  var found = vec2<u32>(NONE, NONE);
  for (var tail = !head.decides && share >= head.mass; tail; tail = false) {
    found = tailAtShare(share - head.mass, head);
  }
  if (found.y == NONE) {
    found = headAt(share, select(head.count, head.kept, head.decides));
  }
  if (r == 0u && head.decides) {
    results[draw.record * 4u] = found.y;
  }
  rows[drawAt] = select(found.x, NONE, draw.filtered && keyLogit(found.x) < draw.floor);
  rows[drawAt + 1u] = found.y;
}

// Takes the first draw that is known to stay; true where one before has to be weighed.
fn waits(lane: u32, draw: Draw, head: Head, some: bool) -> bool {
  let last = max(head.count, 1u) - 1u;
  let headKey = rows[stateAt + ROW_HEAD + last];
  let headId = rows[stateAt + ROW_HEAD + HEAD_MOST + last];
  var r = select(ROUNDS, 0u, some);
  while (r < ROUNDS && rows[stateAt + ROW_DRAWS + 2u * r] == NONE) {
    r++;
  }
  let key = rows[stateAt + ROW_DRAWS + 2u * min(r, ROUNDS - 1u)];
  let id = rows[stateAt + ROW_DRAWS + 2u * min(r, ROUNDS - 1u) + 1u];
  let ofHead = head.count > 0u && (key > headKey || (key == headKey && id <= headId));
  let stays = r < ROUNDS && (draw.massLimit == ALL || ofHead);
  if (lane == 0u && some) {
    if (stays) {
      results[draw.record * 4u] = id;
    }
    rows[stateAt + ROW_WAITS] = select(0u, min(r, LAST_ROUNDS) + 1u, !stays && r < ROUNDS);
    rows[stateAt + ROW_MASS_LIMIT] = bitcast<u32>(draw.massLimit);
  }
  return some && !stays;
}

// Weights of a word's tokens outside of the head.
fn tailWeights(word: u32, headLogit: f32, headId: u32) -> vec4<f32> {
  let values = bitcast<vec4<f32>>(logitWord(words, word, params.vocabulary));
  let weights = exp2((max(values, vec4<f32>(weightless)) - vec4<f32>(high)) * scale);
  let ids = vec4<u32>(word * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
  let outside = (values < vec4<f32>(headLogit)) | ((values == vec4<f32>(headLogit)) & (ids > vec4<u32>(headId)));
  return select(vec4<f32>(0.0), weights, outside & (values >= vec4<f32>(weightless)));
}

// Key and id at a running weight of the strands; where rounding puts it past all, the last that has a weight. A strand and a
// chunk may seem to have a weight where there is only the rounding of the head's: then it is the next token that has one.
// No id: there is none.
fn tailAtShare(share: f32, head: Head) -> vec2<u32> {
  let last = stateAt + ROW_HEAD + max(head.count, 1u) - 1u;
  // Without a head, all are outside.
  let headLogit = select(FLOAT_MAX, keyLogit(rows[last]), head.count > 0u);
  let headId = select(NONE, rows[last + HEAD_MOST], head.count > 0u);
  let regions = params.chunks / STRANDS;
  // Of the share, what is left for the strand, the chunk, the token; where none reaches it, for all.
  var left = share;
  var rest = ALL;
  var strand = 0u;
  for (var i = 0u; i < STRANDS; i++) {
    let mass = bitcast<f32>(rows[stateAt + ROW_STRANDS + STRANDS + i]);
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
  var place = strand * regions;
  for (var i = 0u; i < select(regions, 0u, regions == 1u); i++) {
    let mass = tailOf(i * STRANDS + strand, head);
    if (mass > 0.0) {
      place = strand * regions + i;
      if (mass > left) {
        rest = left;
        break;
      }
      left -= mass;
    }
  }
  left = select(rest, left, regions == 1u);
  var id = NONE;
  var key = NONE;
  for (var tried = 0u; tried < params.chunks && id == NONE; tried++) {
    let chunk = place % regions * STRANDS + place / regions;
    let end = endWordOf(chunk, params.vocabulary);
    var found = false;
    for (var word = firstWordOf(chunk); word < end && !found; word += STRANDS) {
      let weights = tailWeights(word, headLogit, headId);
      let mass = sumOf(weights);
      found = mass > left;
      for (var some = mass > 0.0; some; some = false) {
        var within = left;
        for (var i = 0u; i < 4u; i++) {
          if (weights[i] > 0.0) {
            id = word * 4u + i;
            if (weights[i] > within) {
              break;
            }
            within -= weights[i];
          }
        }
        left -= mass;
      }
    }
    place = select(place + 1u, 0u, place + 1u == params.chunks);
    left = 0.0;
  }
  if (id != NONE) {
    key = bitsKey(logitWord(words, id / 4u, params.vocabulary)[id % 4u]);
  }
  return vec2<u32>(key, id);
}

// A chunk's weight outside of the head.
fn tailOf(chunk: u32, head: Head) -> f32 {
  var mass = chunkWeight(chunk);
  for (var i = 0u; i < head.count; i++) {
    let id = rows[stateAt + ROW_HEAD + HEAD_MOST + i];
    if (id / REGION_IDS * STRANDS + id / 4u % STRANDS == chunk) {
      mass -= headWeight(i);
    }
  }
  return mass;
}
