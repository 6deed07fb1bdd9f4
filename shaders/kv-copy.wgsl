// kv[to] = kv[from]: whole blocks of one layer, before anything else of a step.
//
//   step  metadata; copies = step[12]; at step[13] two words each, from and to, of KV group 0, then of the next groups
//   kv    [blocks, blockWords] vec4
//
// A thread copies one word of four. Targets differ and no target is a source, so the order doesn't matter. A buffer
// can't be copied to itself by the encoder, so a kernel does it. Prepend step.wgsl.
struct Params {
  // Words of four of one block.
  blockWords: u32,
  // The layer's KV group.
  kvGroup: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read_write> kv: array<vec4<u32>>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (group.y * groups.x + group.x) * 64u + lane;
  let copy = index / params.blockWords;
  if (copy >= step[STEP_COPIES]) {
    return;
  }
  let at = step[STEP_COPIES_AT] + (params.kvGroup * step[STEP_COPIES] + copy) * 2u;
  let word = index % params.blockWords;
  kv[step[at + 1u] * params.blockWords + word] = kv[step[at] * params.blockWords + word];
}
