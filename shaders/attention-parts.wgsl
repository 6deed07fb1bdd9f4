// One part of attention a thread: softmax and value sum of one head over one split of 64 keys.
//
//   step   metadata; parts = split items
//   query  [maxRows, heads, HEAD_WORDS] vec4
//   kv     [blocks, 2 (k, v), kvHeads, 16 tokens, HEAD_WORDS] words of four
//   parts  [split items, heads, 1 + HEAD_WORDS] vec4: (maximum, sum, 0, 0), then the values
//
// The form for sequences of few rows, with many keys each. attention-merge.wgsl adds the parts up.
// Prepend step, attention-keys, kv-*, attention-split and `const HEAD_WORDS`.
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> query: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> kv: array<KvWord>;
@group(0) @binding(4) var<storage, read_write> parts: array<vec4<f32>>;

@compute @workgroup_size(32)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (group.y * groups.x + group.x) * 32u + lane;
  let item = index / params.heads;
  let head = index % params.heads;
  if (item >= step[STEP_SPLIT_ITEMS]) {
    return;
  }
  let at = step[STEP_SPLIT_ITEMS_AT] + item * 2u;
  let row = step[at];
  let split = step[at + 1u];
  let keys = visibleKeys(row);
  // Behind the window: the merge doesn't read it.
  if ((split + 1u) * SPLIT_KEYS <= keys.x) {
    return;
  }
  attendSplit(row, head, max(keys.x, split * SPLIT_KEYS), min(keys.y, (split + 1u) * SPLIT_KEYS));
  let partAt = index * (HEAD_WORDS + 1u);
  parts[partAt] = vec4<f32>(splitMax, splitSum, 0.0, 0.0);
  #for w HEAD_WORDS
  parts[partAt + 1u + $wu] = splitValue$w;
  #end
}
