// The id of a row whose draws wait: the first before which there is no more weight than the row's limit. The row isn't
// searched then.
//
//   step     metadata; logits rows = step[2]
//   above    [tile rows, 4, chunks] f32 of weigh-above.wgsl
//   rows, jobs  sampler-state.wgsl
//   results  [logits rows, 4] u32: id, non-finite, 0, 0
//
// A workgroup of 64 a row; a thread adds a strand's chunks in order, thread 0 the strands in order. Prepend step and
// sampler-state.
struct Params {
  chunks: u32,
  firstRow: u32,
  tileRows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> above: array<f32>;
@group(0) @binding(3) var<storage, read_write> rows: array<u32>;
@group(0) @binding(4) var<storage, read_write> jobs: array<u32>;
@group(0) @binding(5) var<storage, read_write> results: array<u32>;

var<workgroup> waits: u32;

@compute @workgroup_size(STRANDS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.x;
  let record = params.firstRow + row;
  if (row >= params.tileRows || record >= step[STEP_LOGITS]) {
    return;
  }
  let stateAt = row * ROW_STATE;
  if (lane == 0u) {
    waits = rows[stateAt + ROW_WAITS];
  }
  if (workgroupUniformLoad(&waits) == 0u) {
    return;
  }
  let strandAt = stateAt + ROW_STRANDS;
  for (var r = 0u; r < ROUNDS; r++) {
    var mass = 0.0;
    for (var chunk = lane; chunk < params.chunks; chunk += STRANDS) {
      mass += above[(row * ROUNDS + r) * params.chunks + chunk];
    }
    rows[strandAt + r * STRANDS + lane] = bitcast<u32>(mass);
  }
  storageBarrier();
  workgroupBarrier();
  if (lane != 0u) {
    return;
  }
  let limit = bitcast<f32>(rows[stateAt + ROW_MASS_LIMIT]);
  for (var r = 0u; r < ROUNDS; r++) {
    var mass = 0.0;
    for (var i = 0u; i < STRANDS; i++) {
      mass += bitcast<f32>(rows[strandAt + r * STRANDS + i]);
    }
    let drawAt = stateAt + ROW_DRAWS + 2u * r;
    if (rows[drawAt] != NONE && mass <= limit) {
      results[record * 4u] = rows[drawAt + 1u];
      jobs[row * JOB_STATE + JOB_TASK] = 0u;
      return;
    }
  }
}
