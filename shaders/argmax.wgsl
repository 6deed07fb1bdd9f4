// The best logit of each row from its chunks, in order of id; the result of a greedy row.
//
//   step     metadata; logits rows = step[2]
//   chunks   [tile rows, chunks, 3] u32: key, id, non-finite
//   best     [tile rows, 4] u32: id, non-finite, bits of the logit, 0
//   results  [logits rows, 4] u32: id, non-finite, bits of the logprob, 0
//   lastIds  [maxSequences] the id each slot sampled last
//
// A thread a row. Sampled rows are written too, and again by sample.wgsl. Prepend logit-key.wgsl and step.wgsl.
struct Params {
  chunks: u32,
  firstRow: u32,
  tileRows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> chunks: array<u32>;
@group(0) @binding(3) var<storage, read_write> best: array<u32>;
@group(0) @binding(4) var<storage, read_write> results: array<u32>;
@group(0) @binding(5) var<storage, read_write> lastIds: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) thread: vec3<u32>) {
  let row = thread.x;
  let record = params.firstRow + row;
  if (row >= params.tileRows || record >= step[STEP_LOGITS]) {
    return;
  }
  var key = 0u;
  var id = 0u;
  var nonFinite = 0u;
  for (var chunk = 0u; chunk < params.chunks; chunk++) {
    let at = (row * params.chunks + chunk) * 3u;
    if (chunks[at] > key) {
      key = chunks[at];
      id = chunks[at + 1u];
    }
    nonFinite |= chunks[at + 2u];
  }
  best[row * 4u] = id;
  best[row * 4u + 1u] = nonFinite;
  best[row * 4u + 2u] = bitcast<u32>(keyLogit(key));
  best[row * 4u + 3u] = 0u;
  results[record * 4u] = id;
  results[record * 4u + 1u] = nonFinite;
  results[record * 4u + 2u] = 0u;
  results[record * 4u + 3u] = 0u;
  let at = step[STEP_LOGITS_AT] + record * 16u;
  if ((step[at + 2u] & LOGITS_WRITES_SLOT) != 0u) {
    lastIds[step[at + 1u]] = id;
  }
}
