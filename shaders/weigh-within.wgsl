// Whether a draw that waits stays, of a small vocabulary: what weigh-above.wgsl and accept-draw.wgsl find of a large one.
// Part of row-stats.wgsl.

// Takes the first draw before which there is no more weight than the limit; true where one was. Called by all threads
// together; not `some`: no draw waits.
fn settled(lane: u32, draw: Draw, some: bool) -> bool {
  // Candidates of the head aren't needed any more.
  let sumsAt = stateAt + ROW_LIST;
  let drawn = drawnLogits();
  let ids = drawnIds();
  for (var strand = select(STRANDS, lane, some); strand < STRANDS; strand += THREADS) {
    let sums = weighChunk(strand, params.vocabulary, drawn, ids);
    let at = sumsAt + strand * ROUNDS;
    rows[at] = bitcast<u32>(sums.x);
    rows[at + 1u] = bitcast<u32>(sums.y);
    rows[at + 2u] = bitcast<u32>(sums.z);
    rows[at + 3u] = bitcast<u32>(sums.w);
  }
  storageBarrier();
  var accepted = false;
  for (var r = select(ROUNDS, 0u, some && lane == 0u); r < ROUNDS && !accepted; r++) {
    var mass = 0.0;
    for (var strand = 0u; strand < STRANDS; strand++) {
      mass += bitcast<f32>(rows[sumsAt + strand * ROUNDS + r]);
    }
    let drawAt = stateAt + ROW_DRAWS + 2u * r;
    accepted = rows[drawAt] != NONE && mass <= draw.massLimit;
    if (accepted) {
      results[draw.record * 4u] = rows[drawAt + 1u];
    }
  }
  return accepted;
}
