// The id of a row whose draws wait: the first before which there is no more weight than the row's limit. The row isn't
// searched then. Of some draws; where none stays, the row waits for the next.
//
//   step     metadata; logits rows = step[2]
//   logits   logit-words*.wgsl
//   above    [tile rows, 4, chunks] f32 of weigh-above.wgsl, of these draws and the first `seen` chunks
//   chunks, rows, jobs  sampler-state.wgsl
//   results  [logits rows, 4] u32: id, non-finite, bits of the logprob, 0
//   lastIds  [maxSequences] the id each slot sampled last
//
// Of the chunks not seen all weight may be before a draw, or none: where that leaves it open, the row waits on.
// A workgroup of THREADS a row; a thread adds some strands' chunks in order, thread 0 the strands in order. Prepend step,
// logit-key, sampler-state, logit-words and tell-id.
struct Params {
  vocabulary: u32,
  chunks: u32,
  firstRow: u32,
  tileRows: u32,
  seen: u32,
  // As weigh-above.wgsl's.
  firstDraw: u32,
  draws: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read> above: array<f32>;
@group(0) @binding(4) var<storage, read> chunks: array<u32>;
@group(0) @binding(5) var<storage, read_write> rows: array<u32>;
@group(0) @binding(6) var<storage, read_write> jobs: array<u32>;
@group(0) @binding(7) var<storage, read_write> results: array<u32>;
@group(0) @binding(8) var<storage, read_write> lastIds: array<u32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.x;
  let record = params.firstRow + row;
  if (row >= params.tileRows || record >= step[STEP_LOGITS]) {
    return;
  }
  let stateAt = row * ROW_STATE;
  let waits = rows[stateAt + ROW_WAITS] == params.firstDraw + 1u;
  let begin = params.firstDraw;
  let end = params.firstDraw + params.draws;
  let high = bitcast<f32>(rows[stateAt + ROW_HIGH]);
  let scale = log2ScaleOf(bitcast<f32>(rows[stateAt + ROW_TEMPERATURE]));
  let weightless = lowestLogit(high, scale, 200.0);
  let chunksAt = row * CHUNK_WORDS * params.chunks;
  // The head's candidates aren't needed any more.
  let strandAt = stateAt + ROW_LIST;
  let restAt = strandAt + ROUNDS * STRANDS;
  for (var i = select(end * STRANDS, begin * STRANDS + lane, waits); i < end * STRANDS; i += THREADS) {
    let r = i / STRANDS;
    let key = rows[stateAt + ROW_DRAWS + 2u * r];
    var mass = 0.0;
    var rest = 0.0;
    var chunk = i % STRANDS;
    for (; chunk < params.seen; chunk += STRANDS) {
      mass += above[(row * ROUNDS + r) * params.chunks + chunk];
    }
    for (; chunk < params.chunks; chunk += STRANDS) {
      let best = chunks[chunksAt + chunk];
      let weight = exp2((max(bitcast<f32>(best), weightless) - high) * scale);
      let sum = bitcast<f32>(chunks[chunksAt + 2u * params.chunks + chunk]);
      rest += select(0.0, sum * weight, bitsKey(best) >= key);
    }
    rows[strandAt + i] = bitcast<u32>(mass);
    rows[restAt + i] = bitcast<u32>(rest);
  }
  storageBarrier();
  if (lane != 0u || !waits) {
    return;
  }
  let limit = bitcast<f32>(rows[stateAt + ROW_MASS_LIMIT]);
  for (var r = begin; r < end; r++) {
    var mass = 0.0;
    var rest = 0.0;
    for (var i = 0u; i < STRANDS; i++) {
      mass += bitcast<f32>(rows[strandAt + r * STRANDS + i]);
      rest += bitcast<f32>(rows[restAt + r * STRANDS + i]);
    }
    let drawAt = stateAt + ROW_DRAWS + 2u * r;
    if (rows[drawAt] != NONE && mass <= limit) {
      if (params.seen < params.chunks && !surely(mass + rest, limit)) {
        return;
      }
      let id = rows[drawAt + 1u];
      let words = wordsOf(row, params.vocabulary);
      tellId(row, record, id, logitWord(words, id / 4u, params.vocabulary)[id % 4u]);
      rows[stateAt + ROW_WAITS] = 0u;
      jobs[row * JOB_STATE + JOB_WHOLE] = 0u;
      return;
    }
  }
  rows[stateAt + ROW_WAITS] = select(0u, end + 1u, end < ROUNDS);
}
