// The best logit of each chunk of 512: its key, its id (ties: the lowest), and whether the chunk is all finite.
//
//   step    metadata; logits rows = step[2]
//   logits  [tile rows, stride] f32, seen as u32: a shader may assume that an f32 is no NaN
//   chunks  [tile rows, chunks, 3] u32: key, id, 1 if a NaN or an infinity was seen
//
// A thread a chunk, no barrier; argmax.wgsl merges. Prepend logit-key.wgsl and step.wgsl.
const CHUNK = 512u;

struct Params {
  vocabulary: u32,
  stride: u32,
  chunks: u32,
  firstRow: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> logits: array<u32>;
@group(0) @binding(3) var<storage, read_write> chunks: array<u32>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (group.y * groups.x + group.x) * 64u + lane;
  let row = index / params.chunks;
  if (params.firstRow + row >= step[STEP_LOGITS]) {
    return;
  }
  let begin = (index % params.chunks) * CHUNK;
  let end = min(begin + CHUNK, params.vocabulary);
  var best = 0u;
  var bestId = begin;
  var nonFinite = 0u;
  for (var id = begin; id < end; id++) {
    let bits = logits[row * params.stride + id];
    let key = bitsKey(bits);
    if (key > best) {
      best = key;
      bestId = id;
    }
    if (isNonFinite(bits)) {
      nonFinite = 1u;
    }
  }
  chunks[index * 3u] = best;
  chunks[index * 3u + 1u] = bestId;
  chunks[index * 3u + 2u] = nonFinite;
}
