// logits[r, id] = MASKED_LOGIT where the mask of row r has no bit for id, of a tile's rows that have LOGITS_MASKED.
//
//   step    metadata; logits rows = step[2]; word 15 of a row's record is its mask
//   masks   [maxSequences, maskWords] u32: a bit per id, least significant first
//   logits  [tile rows, vocabulary] f32: mask-words*.wgsl
//
// A thread a word of the mask, 32 logits: a thread a logit costs a software adapter several times as much. NaN and
// infinities stay, for the sampler to report. Prepend step.wgsl, logit-key.wgsl, masked-logit.wgsl and mask-words*.wgsl.
struct Params {
  vocabulary: u32,
  firstRow: u32,
  maskWords: u32,
  tileRows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> masks: array<u32>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (group.y * groups.x + group.x) * 64u + lane;
  let row = index / params.maskWords;
  let record = params.firstRow + row;
  if (row >= params.tileRows || record >= step[STEP_LOGITS]) {
    return;
  }
  let at = step[STEP_LOGITS_AT] + record * 16u;
  if ((step[at + 2u] & LOGITS_MASKED) == 0u) {
    return;
  }
  let word = index % params.maskWords;
  let bits = masks[step[at + 15u] * params.maskWords + word];
  if (bits != 0xffffffffu) {
    let first = word * 32u;
    maskLogits(row * params.vocabulary + first, min(32u, params.vocabulary - first), bits);
  }
}
