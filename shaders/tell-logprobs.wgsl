// What is told of each row's id, and where it is kept: its logprob, the logprobs of its slot's ids, in their order, where
// they are asked for; the slot's last id.
//
//   step     metadata; logits rows = step[2]
//   logits   [tile rows, vocabulary] f32, seen as u32
//   rows     sampler-state.wgsl
//   slotIds  [maxSequences, 1 + maxIds] u32: how many, then ids
//   results  [logits rows, 4] u32: id, non-finite, bits of the logprob, 0
//   lastIds  [maxSequences] the id each slot sampled last
//   told     [sum of the rows' ids] f32; row r's begin where its record says
//
// A workgroup of 64 a row. Prepend step and sampler-state.
struct Params {
  vocabulary: u32,
  firstRow: u32,
  tileRows: u32,
  maxIds: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> logits: array<u32>;
@group(0) @binding(3) var<storage, read> rows: array<u32>;
@group(0) @binding(4) var<storage, read> slotIds: array<u32>;
@group(0) @binding(5) var<storage, read_write> results: array<u32>;
@group(0) @binding(6) var<storage, read_write> lastIds: array<u32>;
@group(0) @binding(7) var<storage, read_write> told: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.x;
  let record = params.firstRow + row;
  if (row >= params.tileRows || record >= step[STEP_LOGITS]) {
    return;
  }
  let at = step[STEP_LOGITS_AT] + record * 16u;
  let flags = step[at + 2u];
  let own = results[record * 4u];
  let ids = step[at + 1u] * (1u + params.maxIds);
  // The row's own id comes before the slot's.
  var count = 1u;
  if ((flags & LOGITS_ID_LOGPROBS) != 0u) {
    count += min(slotIds[ids], params.maxIds);
  }
  for (var i = lane; i < count; i += 64u) {
    let id = select(min(slotIds[ids + i], params.vocabulary - 1u), own, i == 0u);
    let rowAt = row * ROW_STATE;
    let logprob = logprobOf(
      logits[row * params.vocabulary + id],
      bitcast<f32>(rows[rowAt + ROW_HIGH]),
      bitcast<f32>(rows[rowAt + ROW_TEMPERATURE]),
      bitcast<f32>(rows[rowAt + ROW_LN_TOTAL]),
    );
    if (i > 0u) {
      told[step[at + 14u] + i - 1u] = logprob;
    } else {
      results[record * 4u + 2u] = select(0u, bitcast<u32>(logprob), (flags & LOGITS_LOGPROB) != 0u);
      if ((flags & (LOGITS_WRITES_SLOT | LOGITS_SCORED)) == LOGITS_WRITES_SLOT) {
        lastIds[step[at + 1u]] = id;
      }
    }
  }
}
