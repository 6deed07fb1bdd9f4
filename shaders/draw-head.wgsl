// A row's draw, where its head decides it: the head's tokens are the row's best in order (logit descending, id ascending),
// top k of them where that is 64 or less, else 20. None where over 256 tokens are no worse than the head's bound.
//
// The head decides where the cut is in it, or nothing is filtered and the uniform's share of the whole is in it. Part of
// row-stats.wgsl, which declares `step`, `logits`, `chunks`, `rows` and `results`.

// What of a row is drawn.
struct Draw {
  // The row's record in `step`, and its number.
  at: u32,
  record: u32,
  topK: u32,
  filtered: bool,
  // A token stays where the weight before it is at most the limit, and its logit no less than the floor.
  massLimit: f32,
  floor: f32,
}

var<private> high: f32;
var<private> scale: f32;
// Below this logit weights are 0.
var<private> weightless: f32;
var<private> words: u32;
var<private> stateAt: u32;
var<private> chunksAt: u32;

var<workgroup> listed: atomic<u32>;
// From thread 0 to all: 1 where nothing is left to do, tokens of the head, weight of the head.
var<workgroup> decided: vec4<u32>;

// Draws the row's id as far as it can be told from the head and the strands; true where it has to be searched for.
// Called by all threads together, `some` false where there is nothing to draw.
fn drawn(lane: u32, draw: Draw, wanted: u32, some: bool) -> bool {
  if (!some) {
    return false;
  }
  gather(lane, bounds[0]);
  storageBarrier();
  workgroupBarrier();
  order(lane, wanted);
  storageBarrier();
  workgroupBarrier();
  if (lane == 0u) {
    decided = ofHead(draw, wanted);
  }
  let told = workgroupUniformLoad(&decided);
  if (told.x != 0u) {
    return told.x == 2u;
  }
  return ofStrands(lane, draw, told.y, bitcast<f32>(told.z));
}

// Lists what is no worse than the bound.
fn gather(lane: u32, bound: f32) {
  var full = false;
  for (var chunk = lane; chunk < params.chunks && !full; chunk += STRANDS) {
    let best = chunks[chunksAt + chunk];
    for (var open = best != MASKED && bitcast<f32>(best) >= bound; open; open = false) {
      let end = endWordOf(chunk, params.vocabulary);
      for (var word = firstWordOf(chunk); word < end && !full; word += STRANDS) {
        let bits = logitWord(words, word, params.vocabulary);
        let some = (bits != vec4<u32>(MASKED)) & (bitcast<vec4<f32>>(bits) >= vec4<f32>(bound));
        for (var met = any(some); met; met = false) {
          for (var i = 0u; i < 4u; i++) {
            if (some[i]) {
              let place = atomicAdd(&listed, 1u);
              if (place < HEAD_LIST) {
                rows[stateAt + ROW_LIST + place] = bitsKey(bits[i]);
                rows[stateAt + ROW_LIST + HEAD_LIST + place] = word * 4u + i;
              } else {
                full = true;
              }
            }
          }
        }
      }
    }
  }
}

// Puts what is listed in order, each against each.
fn order(lane: u32, wanted: u32) {
  let size = atomicLoad(&listed);
  let listAt = stateAt + ROW_LIST;
  for (var i = select(lane, size, size > HEAD_LIST); i < size; i += STRANDS) {
    let key = rows[listAt + i];
    let id = rows[listAt + HEAD_LIST + i];
    var rank = 0u;
    for (var other = 0u; other < size; other++) {
      let otherKey = rows[listAt + other];
      rank += u32(otherKey > key || (otherKey == key && rows[listAt + HEAD_LIST + other] < id));
    }
    if (rank < wanted) {
      rows[stateAt + ROW_HEAD + rank] = key;
      rows[stateAt + ROW_HEAD + HEAD_MOST + rank] = id;
    }
  }
}

// Cuts and draws in the head. Told: 1: done; 2: searched elsewhere; 0: to be drawn over the whole row; then the head's size
// and weight.
fn ofHead(draw: Draw, wanted: u32) -> vec4<u32> {
  let size = atomicLoad(&listed);
  let count = select(min(size, wanted), 0u, size > HEAD_LIST);
  var kept = 0u;
  var mass = 0.0;
  for (; kept < count; kept++) {
    let logit = keyLogit(rows[stateAt + ROW_HEAD + kept]);
    if (draw.filtered && (mass > draw.massLimit || logit < draw.floor)) {
      break;
    }
    mass += weightOf(logit);
    rows[stateAt + ROW_HEAD + 2u * HEAD_MOST + kept] = bitcast<u32>(mass);
  }
  if (count > 0u && (kept < count || count == draw.topK || size < wanted)) {
    results[draw.record * 4u] = headAt(uniformOf(draw.at, 0u) * mass, kept).y;
    return vec4<u32>(1u);
  }
  if (draw.topK < params.vocabulary) {
    return vec4<u32>(2u);
  }
  return vec4<u32>(0u, count, bitcast<u32>(mass), 0u);
}

// Key and id of the head's token at a running weight; where rounding puts it past all, of the last.
fn headAt(share: f32, count: u32) -> vec2<u32> {
  var i = 0u;
  while (i + 1u < count && bitcast<f32>(rows[stateAt + ROW_HEAD + 2u * HEAD_MOST + i]) <= share) {
    i++;
  }
  return vec2<u32>(rows[stateAt + ROW_HEAD + i], rows[stateAt + ROW_HEAD + HEAD_MOST + i]);
}

fn weightOf(logit: f32) -> f32 {
  return select(0.0, exp2((max(logit, weightless) - high) * scale), logit >= weightless);
}
