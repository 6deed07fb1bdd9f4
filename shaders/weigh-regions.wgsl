// Whether a draw that waits stays, weighed by the row's own workgroup: of a large vocabulary, where few threads run at once.
// weigh-above.wgsl and accept-draw.wgsl find the same with a thread a chunk. Part of row-stats.wgsl.
//
// One draw after another, region by region, until it is known: all of a region's threads go on to what thread 0 says.

// Turns of a row: ROUNDS draws of its regions; past these, what came out.
const NONE_STAYS = 0xfffffffeu;
const STAYS = 0xffffffffu;

var<workgroup> turn: u32;

// Takes the first draw before which there is no more weight than the limit; true where one was. Called by all threads
// together; not `some`: no draw waits.
fn settled(lane: u32, draw: Draw, some: bool) -> bool {
  let regions = params.chunks / STRANDS;
  if (lane == 0u) {
    turn = select(NONE_STAYS, 0u, some);
  }
  loop {
    let now = workgroupUniformLoad(&turn);
    if (now >= ROUNDS * regions) {
      return now == STAYS;
    }
    let r = now / regions;
    let region = now % regions;
    let drawAt = stateAt + ROW_DRAWS + 2u * r;
    let key = rows[drawAt];
    let id = rows[drawAt + 1u];
    // Candidates of the head aren't needed any more. Sums of the turn before lie beside: thread 0 may still add those.
    let sumsAt = stateAt + ROW_LIST + now % 2u * 2u * STRANDS;
    let beforeAt = stateAt + ROW_LIST + (now + 1u) % 2u * 2u * STRANDS;
    for (var strand = select(lane, STRANDS, key == NONE); strand < STRANDS; strand += THREADS) {
      var mass = weightBefore(region * STRANDS + strand, keyLogit(key), id);
      for (var later = region > 0u; later; later = false) {
        mass = bitcast<f32>(rows[beforeAt + strand]) + mass;
      }
      rows[sumsAt + strand] = bitcast<u32>(mass);
      var rest = 0.0;
      for (var chunk = (region + 1u) * STRANDS + strand; chunk < params.chunks; chunk += STRANDS) {
        for (var open = bitcast<f32>(chunkBest(chunk)) >= keyLogit(key); open; open = false) {
          rest += chunkWeight(chunk);
        }
      }
      rows[sumsAt + STRANDS + strand] = bitcast<u32>(rest);
    }
    storageBarrier();
    for (var first = lane == 0u; first; first = false) {
      var mass = 0.0;
      var rest = 0.0;
      for (var strand = select(0u, STRANDS, key == NONE); strand < STRANDS; strand++) {
        mass += bitcast<f32>(rows[sumsAt + strand]);
        rest += bitcast<f32>(rows[sumsAt + STRANDS + strand]);
      }
      let next = select(NONE_STAYS, (r + 1u) * regions, r + 1u < ROUNDS);
      if (key == NONE || mass > draw.massLimit) {
        turn = next;
      } else if (region + 1u == regions || surely(mass + rest, draw.massLimit)) {
        turn = STAYS;
        results[draw.record * 4u] = id;
      } else {
        turn = now + 1u;
      }
    }
  }
}

// Of a chunk's tokens before a draw, in the order (logit descending, id ascending).
fn weightBefore(chunk: u32, logit: f32, id: u32) -> f32 {
  let end = endWordOf(chunk, params.vocabulary);
  let last = id / 4u;
  var sums = vec4<f32>(0.0);
  var word = select(end, firstWordOf(chunk), bitcast<f32>(chunkBest(chunk)) >= logit);
  for (; word + 3u * STRANDS < end; word += 4u * STRANDS) {
    let values0 = bitcast<vec4<f32>>(logitWord(words, word, params.vocabulary));
    let values1 = bitcast<vec4<f32>>(logitWord(words, word + STRANDS, params.vocabulary));
    let values2 = bitcast<vec4<f32>>(logitWord(words, word + 2u * STRANDS, params.vocabulary));
    let values3 = bitcast<vec4<f32>>(logitWord(words, word + 3u * STRANDS, params.vocabulary));
    sums += weightsAbove(values0, logit, word < last) + weightsAbove(values1, logit, word + STRANDS < last);
    sums += weightsAbove(values2, logit, word + 2u * STRANDS < last) +
      weightsAbove(values3, logit, word + 3u * STRANDS < last);
  }
  // Ids past the end are masked.
  for (; word < end; word += STRANDS) {
    let values = bitcast<vec4<f32>>(logitWord(words, word, params.vocabulary));
    sums += weightsAbove(values, logit, word < last);
  }
  // Ties in the draw's own word.
  for (var own = last >= firstWordOf(chunk) && last < end && last % STRANDS == chunk % STRANDS; own; own = false) {
    let values = bitcast<vec4<f32>>(logitWord(words, last, params.vocabulary));
    let before = vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(id % 4u);
    sums += select(vec4<f32>(0.0), weightsAbove(values, logit, true), (values == vec4<f32>(logit)) & before);
  }
  return sumOf(sums);
}

// Weights of a word's tokens that are above a draw, or equal to it and `earlier`.
fn weightsAbove(values: vec4<f32>, logit: f32, earlier: bool) -> vec4<f32> {
  let weights = exp2((max(values, vec4<f32>(weightless)) - vec4<f32>(high)) * scale);
  let before = (values > vec4<f32>(logit)) | ((values == vec4<f32>(logit)) & vec4<bool>(earlier));
  return select(vec4<f32>(0.0), weights, before);
}
