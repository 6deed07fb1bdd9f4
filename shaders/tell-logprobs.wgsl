// The logprobs of the ids of a row's slot, in their order, where they are asked for.
//
//   step     metadata; logits rows = step[2]
//   logits   [tile rows, vocabulary] f32, seen as u32
//   rows     sampler-state.wgsl
//   slotIds  [maxSequences, 1 + maxIds] u32: how many, then ids
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
@group(0) @binding(5) var<storage, read_write> told: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.x;
  let record = params.firstRow + row;
  if (row >= params.tileRows || record >= step[STEP_LOGITS]) {
    return;
  }
  let at = step[STEP_LOGITS_AT] + record * 16u;
  if ((step[at + 2u] & LOGITS_ID_LOGPROBS) == 0u) {
    return;
  }
  let ids = step[at + 1u] * (1u + params.maxIds);
  let count = min(slotIds[ids], params.maxIds);
  let rowAt = row * ROW_STATE;
  for (var i = lane; i < count; i += 64u) {
    told[step[at + 14u] + i] = logprobOf(
      logits[row * params.vocabulary + min(slotIds[ids + 1u + i], params.vocabulary - 1u)],
      bitcast<f32>(rows[rowAt + ROW_HIGH]),
      bitcast<f32>(rows[rowAt + ROW_TEMPERATURE]),
      bitcast<f32>(rows[rowAt + ROW_LN_TOTAL]),
    );
  }
}
