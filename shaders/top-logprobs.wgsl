// The ids of a row's N best logits (ties: the lowest ids) with their logprobs, in no order.
//
//   step    metadata; logits rows = step[2]
//   logits  [tile rows, vocabulary] f32
//   rows, picks  sampler-state.wgsl; the row's head has them, or its second job has the cut
//   bests   u32: bits of a row's chunks' best logits, from bests at + row * stride on
//   top     [sum of the rows' N, 2] u32: id, bits of the logprob; row r's begin where its record says
//
// A workgroup of 64 a row; a chunk whose best is below the cut isn't read. Prepend step, logit-key and sampler-state.
struct Params {
  vocabulary: u32,
  chunks: u32,
  firstRow: u32,
  tileRows: u32,
  bestsAt: u32,
  stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> logits: array<f32>;
@group(0) @binding(3) var<storage, read> rows: array<u32>;
@group(0) @binding(4) var<storage, read> picks: array<u32>;
@group(0) @binding(5) var<storage, read> bests: array<u32>;
@group(0) @binding(6) var<storage, read_write> top: array<u32>;

var<workgroup> told: atomic<u32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.x;
  let record = params.firstRow + row;
  if (row >= params.tileRows || record >= step[STEP_LOGITS]) {
    return;
  }
  let at = step[STEP_LOGITS_AT] + record * 16u;
  let wanted = step[at + 11u];
  let first = step[at + 12u];
  if (wanted == 0u) {
    return;
  }
  let rowAt = row * ROW_STATE;
  let pickAt = (params.tileRows + row) * PICK_STATE;
  let high = bitcast<f32>(rows[rowAt + ROW_HIGH]);
  let temperature = bitcast<f32>(rows[rowAt + ROW_TEMPERATURE]);
  let lnTotal = bitcast<f32>(rows[rowAt + ROW_LN_TOTAL]);
  if (picks[pickAt + PICK_OF_HEAD] != 0u) {
    for (var i = lane; i < wanted; i += STRANDS) {
      let id = rows[rowAt + ROW_HEAD + HEAD_MOST + i];
      let bits = bitcast<u32>(logits[row * params.vocabulary + id]);
      top[(first + i) * 2u] = id;
      top[(first + i) * 2u + 1u] = bitcast<u32>(logprobOf(bits, high, temperature, lnTotal));
    }
    return;
  }
  // Not left to the language's zeros: SwiftShader writes them for each four threads, whenever these begin.
  if (lane == 0u) {
    atomicStore(&told, 0u);
  }
  workgroupBarrier();
  let cutKey = picks[pickAt + PICK_CUT_KEY];
  let cutId = picks[pickAt + PICK_CUT_ID];
  for (var chunk = lane; chunk < params.chunks; chunk += STRANDS) {
    if (bitsKey(bests[params.bestsAt + row * params.stride + chunk]) < cutKey) {
      continue;
    }
    for (var i = 0u; i < CHUNK_IDS && idOfChunk(chunk, i) < params.vocabulary; i++) {
      let id = idOfChunk(chunk, i);
      let logit = logits[row * params.vocabulary + id];
      let key = logitKey(logit);
      if (key > cutKey || (key == cutKey && id <= cutId)) {
        let place = atomicAdd(&told, 1u);
        if (place < wanted) {
          top[(first + place) * 2u] = id;
          top[(first + place) * 2u + 1u] = bitcast<u32>(logprobOf(bitcast<u32>(logit), high, temperature, lnTotal));
        }
      }
    }
  }
}
