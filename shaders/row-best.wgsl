// Of each row that is neither drawn nor weighed: the best id, whether the logits are finite, and the slot's last id.
//
//   step     metadata; logits rows = step[2]
//   logits   logit-words*.wgsl
//   chunks   sampler-state.wgsl: best logits, and whether all are finite
//   results  [logits rows, 4] u32: id, non-finite, 0, 0
//   lastIds  [maxSequences] the id each slot sampled last
//
// A workgroup of THREADS a row. It gives row-stats.wgsl's ids in a fraction of its code: a node that has just started
// answers greedily by it, while the rest of the sampler compiles. Prepend step, sampler-state and logit-words.
struct Params {
  vocabulary: u32,
  chunks: u32,
  firstRow: u32,
  tileRows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read> chunks: array<u32>;
@group(0) @binding(4) var<storage, read_write> results: array<u32>;
@group(0) @binding(5) var<storage, read_write> lastIds: array<u32>;

// Of each thread's strands: bits of the best logit, its lowest id, 1 if a NaN or an infinity was seen.
var<workgroup> found: array<vec3<u32>, THREADS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.x;
  let record = params.firstRow + row;
  if (row >= params.tileRows || record >= step[STEP_LOGITS]) {
    return;
  }
  let chunksAt = row * CHUNK_WORDS * params.chunks;
  let words = wordsOf(row, params.vocabulary);
  var best = -FLOAT_MAX;
  var nonFinite = 0u;
  for (var chunk = lane; chunk < params.chunks; chunk += THREADS) {
    best = max(best, bitcast<f32>(chunks[chunksAt + chunk]));
    nonFinite |= chunks[chunksAt + params.chunks + chunk];
  }
  var id = NONE;
  for (var chunk = lane; chunk < params.chunks; chunk += THREADS) {
    if (bitcast<f32>(chunks[chunksAt + chunk]) == best) {
      let end = endWordOf(chunk, params.vocabulary);
      for (var word = firstWordOf(chunk); word < end; word += STRANDS) {
        let equal = bitcast<vec4<f32>>(logitWord(words, word, params.vocabulary)) == vec4<f32>(best);
        if (any(equal)) {
          id = min(id, word * 4u + select(select(select(3u, 2u, equal.z), 1u, equal.y), 0u, equal.x));
          break;
        }
      }
    }
  }
  found[lane] = vec3<u32>(bitcast<u32>(best), id, nonFinite);
  workgroupBarrier();
  if (lane == 0u) {
    for (var i = 1u; i < THREADS; i++) {
      let other = bitcast<f32>(found[i].x);
      nonFinite |= found[i].z;
      id = select(id, select(found[i].y, min(id, found[i].y), other == best), other >= best);
      best = max(best, other);
    }
    let at = step[STEP_LOGITS_AT] + record * 16u;
    let flags = step[at + 2u];
    id = select(min(id, params.vocabulary - 1u), 0u, id == NONE);
    id = select(id, min(step[at + 13u], params.vocabulary - 1u), (flags & LOGITS_SCORED) != 0u);
    results[record * 4u] = id;
    // All masked: the id means as little as that of a NaN.
    results[record * 4u + 1u] = nonFinite | u32(best == -FLOAT_MAX);
    results[record * 4u + 2u] = 0u;
    if ((flags & (LOGITS_WRITES_SLOT | LOGITS_SCORED)) == LOGITS_WRITES_SLOT) {
      lastIds[step[at + 1u]] = id;
    }
  }
}
