// Whether a draw that waits stays, of a small vocabulary: what weigh-regions.wgsl, or weigh-above.wgsl and accept-draw.wgsl,
// find of a large one. Part of row-stats.wgsl.

// Takes the first draw before which there is no more weight than the limit; true where one was. Called by all threads
// together; not `some`: no draw waits.
fn settled(lane: u32, draw: Draw, some: bool) -> bool {
  var accepted = false;
  for (var r = 0u; r < ROUNDS; r++) {
    let drawAt = stateAt + ROW_DRAWS + 2u * r;
    let key = rows[drawAt];
    let id = rows[drawAt + 1u];
    let open = some && !accepted && key != NONE;
    // Candidates of the head aren't needed any more.
    let sumsAt = stateAt + ROW_LIST + r * STRANDS;
    for (var strand = select(STRANDS, lane, open); strand < STRANDS; strand += THREADS) {
      rows[sumsAt + strand] = bitcast<u32>(weightBefore(strand, keyLogit(key), id));
    }
    storageBarrier();
    var mass = 0.0;
    for (var strand = select(STRANDS, 0u, open); strand < STRANDS; strand++) {
      mass += bitcast<f32>(rows[sumsAt + strand]);
    }
    for (var stays = open && mass <= draw.massLimit; stays; stays = false) {
      accepted = true;
      if (lane == 0u) {
        results[draw.record * 4u] = id;
      }
    }
  }
  return accepted;
}

// Of a strand's tokens before a draw, in the order (logit descending, id ascending).
fn weightBefore(strand: u32, logit: f32, id: u32) -> f32 {
  let end = endWordOf(strand, params.vocabulary);
  var sums = vec4<f32>(0.0);
  for (var word = firstWordOf(strand); word < end; word += STRANDS) {
    // Ids past the end are masked.
    let values = bitcast<vec4<f32>>(logitWord(words, word, params.vocabulary));
    let weights = exp2((max(values, vec4<f32>(weightless)) - vec4<f32>(high)) * scale);
    let ids = vec4<u32>(word * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    let before = (values > vec4<f32>(logit)) | ((values == vec4<f32>(logit)) & (ids < vec4<u32>(id)));
    sums += select(vec4<f32>(0.0), weights, before);
  }
  return sumOf(sums);
}
