// A row's draw, where its head decides it: the head's tokens are the row's best in order (logit descending, id ascending),
// top k of them where that is 64 or less, else 20. None where over 256 tokens are no worse than the head's bound.
//
// The head decides where the cut is in it, or nothing is filtered and the uniform's share of the whole is in it. Part of
// row-stats.wgsl.

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
  total: f32,
  // There is something to draw, and the row is drawn.
  sampled: bool,
}

// The head: how many tokens, their weight; of them those that stay, and whether that is for the head to say.
struct Head {
  count: u32,
  mass: f32,
  kept: u32,
  decides: bool,
}

var<private> high: f32;
var<private> scale: f32;
// Below this logit weights are 0.
var<private> weightless: f32;
var<private> words: u32;
var<private> stateAt: u32;
var<private> chunksAt: u32;

// Chunks that have some of the head, and tokens that may be in it.
var<workgroup> opened: atomic<u32>;
var<workgroup> listed: atomic<u32>;

// Makes the head, and draws the row's id as far as it can be told here; true where it has to be searched for. Called by
// all threads together; not `some`: there is nothing in the row.
fn drawn(lane: u32, draw: Draw, wanted: u32, bound: f32, some: bool) -> bool {
  openChunks(lane, bound, some);
  workgroupBarrier();
  storageBarrier();
  gather(lane, bound);
  workgroupBarrier();
  storageBarrier();
  order(lane, wanted);
  storageBarrier();
  let head = headOf(draw, wanted);
  let uniform01 = uniformOf(draw.at, min(lane, ROUNDS - 1u));
  let whole = draw.sampled && !head.decides && draw.topK == params.vocabulary;
  if (lane == 0u) {
    leaveTails(head, whole);
  }
  storageBarrier();
  for (var draws = lane < ROUNDS && (whole || head.decides) && draw.sampled; draws; draws = false) {
    drawOne(lane, draw, head, uniform01);
  }
  storageBarrier();
  let open = waits(lane, draw, head, whole);
  let stays = settled(lane, draw, open);
  return (draw.sampled && !head.decides && !whole) || (open && !stays);
}

// Lists chunks with a token that is no worse than the bound.
fn openChunks(lane: u32, bound: f32, some: bool) {
  for (var strand = select(STRANDS, lane, some); strand < STRANDS; strand += THREADS) {
    for (var chunk = strand; chunk < params.chunks; chunk += STRANDS) {
      let best = chunkBest(chunk);
      for (var open = best != MASKED && bitcast<f32>(best) >= bound; open; open = false) {
        let place = atomicAdd(&opened, 1u);
        if (place < HEAD_LIST) {
          rows[stateAt + ROW_OPEN + place] = chunk;
        }
      }
    }
  }
}

// Lists the tokens of these chunks that are no worse than the bound. More chunks than the list holds have more tokens.
fn gather(lane: u32, bound: f32) {
  let count = atomicLoad(&opened);
  let each = min(REGION_IDS / 4u / STRANDS, (params.vocabulary + 4u * STRANDS - 1u) / (4u * STRANDS));
  let size = select(count, 0u, count > HEAD_LIST) * each;
  for (var i = lane; i < size; i += THREADS) {
    let chunk = rows[stateAt + ROW_OPEN + i / each];
    let word = firstWordOf(chunk) + i % each * STRANDS;
    for (var there = word < endWordOf(chunk, params.vocabulary); there; there = false) {
      let bits = logitWord(words, word, params.vocabulary);
      let some = (bits != vec4<u32>(MASKED)) & (bitcast<vec4<f32>>(bits) >= vec4<f32>(bound));
      for (var met = any(some); met; met = false) {
        for (var k = 0u; k < 4u; k++) {
          if (some[k]) {
            let place = atomicAdd(&listed, 1u);
            if (place < HEAD_LIST) {
              rows[stateAt + ROW_LIST + place] = bitsKey(bits[k]);
              rows[stateAt + ROW_LIST + HEAD_LIST + place] = word * 4u + k;
            }
          }
        }
      }
    }
  }
}

fn listSize() -> u32 {
  return select(atomicLoad(&listed), HEAD_LIST + 1u, atomicLoad(&opened) > HEAD_LIST);
}

// Puts what is listed in order, each against each, four at a time.
fn order(lane: u32, wanted: u32) {
  let size = listSize();
  let listAt = stateAt + ROW_LIST;
  for (var first = select(lane, size, size > HEAD_LIST); first < size; first += 4u * THREADS) {
    let own = vec4<u32>(first, first + THREADS, first + 2u * THREADS, first + 3u * THREADS);
    let at = vec4<u32>(listAt) + min(own, vec4<u32>(size - 1u));
    let keys = vec4<u32>(rows[at.x], rows[at.y], rows[at.z], rows[at.w]);
    let idsAt = at + vec4<u32>(HEAD_LIST);
    let ids = vec4<u32>(rows[idsAt.x], rows[idsAt.y], rows[idsAt.z], rows[idsAt.w]);
    var ranks = vec4<u32>(0u);
    for (var i = 0u; i < size; i++) {
      let key = vec4<u32>(rows[listAt + i]);
      let id = vec4<u32>(rows[listAt + HEAD_LIST + i]);
      ranks += select(vec4<u32>(0u), vec4<u32>(1u), (key > keys) | ((key == keys) & (id < ids)));
    }
    for (var i = 0u; i < 4u; i++) {
      if (own[i] < size && ranks[i] < wanted) {
        let headAt = stateAt + ROW_HEAD + ranks[i];
        rows[headAt] = keys[i];
        rows[headAt + HEAD_MOST] = ids[i];
        rows[headAt + 2u * HEAD_MOST] = bitcast<u32>(weightOf(keyLogit(keys[i])));
      }
    }
  }
}

fn headOf(draw: Draw, wanted: u32) -> Head {
  let size = listSize();
  var head: Head;
  head.count = select(min(size, wanted), 0u, size > HEAD_LIST);
  for (; head.kept < head.count; head.kept++) {
    let logit = keyLogit(rows[stateAt + ROW_HEAD + head.kept]);
    if (draw.filtered && (head.mass > draw.massLimit || logit < draw.floor)) {
      break;
    }
    head.mass += headWeight(head.kept);
  }
  head.decides = head.count > 0u && (head.kept < head.count || head.count == draw.topK || size < wanted);
  return head;
}

// Key and id of the head's token at a running weight; where rounding puts it past all, of the last.
fn headAt(share: f32, count: u32) -> vec2<u32> {
  var i = 0u;
  var mass = 0.0;
  for (; i + 1u < count; i++) {
    mass += headWeight(i);
    if (mass > share) {
      break;
    }
  }
  return vec2<u32>(rows[stateAt + ROW_HEAD + i], rows[stateAt + ROW_HEAD + HEAD_MOST + i]);
}

fn headWeight(i: u32) -> f32 {
  return bitcast<f32>(rows[stateAt + ROW_HEAD + 2u * HEAD_MOST + i]);
}

fn weightOf(logit: f32) -> f32 {
  return select(0.0, exp2((max(logit, weightless) - high) * scale), logit >= weightless);
}
