// Moves a step of decode rows on by one token, so that the next can follow without the host:
//
//   position += 1 and the token is the one its slot sampled, KV length += 1, output position += 1
//
//   step  metadata, written
//
// A thread moves one row: in such a step row, sequence and logits record have the same number. Prepend step.wgsl.
@group(0) @binding(0) var<uniform> params: vec4<u32>;
@group(0) @binding(1) var<storage, read_write> step: array<u32>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = (group.y * groups.x + group.x) * 64u + lane;
  if (row >= step[STEP_ROWS]) {
    return;
  }
  let rowAt = step[STEP_ROWS_AT] + row * 4u;
  step[rowAt + 1u] += 1u;
  step[rowAt + 3u] = params.x;
  step[step[STEP_SEQUENCES_AT] + row * 8u + 3u] += 1u;
  step[step[STEP_LOGITS_AT] + row * 16u + 3u] += 1u;
}
