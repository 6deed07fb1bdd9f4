// output[r, h] = softmax(scale q[r, h] . K) V over the keys that row r sees, through the block table; one thread
// walks all splits of a row and head, and merges them in order.
//
//   step    metadata; rows = whole rows
//   query   [maxRows, heads, HEAD_WORDS] vec4
//   kv      [blocks, 2 (k, v), kvHeads, 16 tokens, HEAD_WORDS] words of four
//   output  [maxRows, heads, HEAD_WORDS] vec4
//
// The form for prefill rows, where rows x heads fill the device, and for rows with one split.
// Prepend step, kv-*, attention-split, attention-merge-rule and `const HEAD_WORDS`.
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> query: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> kv: array<KvWord>;
@group(0) @binding(4) var<storage, read_write> output: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (group.y * groups.x + group.x) * 64u + lane;
  let entry = index / params.heads;
  let head = index % params.heads;
  if (entry >= step[STEP_WHOLE_ROWS]) {
    return;
  }
  let row = step[step[STEP_WHOLE_ROWS_AT] + entry];
  let keys = visibleKeys(row);
  var rowMax = MASKED;
  var rowSum = 0.0;
  #for w HEAD_WORDS
  var value$w = vec4<f32>();
  #end
  for (var split = keys.x / SPLIT_KEYS; split * SPLIT_KEYS < keys.y; split++) {
    attendSplit(row, head, max(keys.x, split * SPLIT_KEYS), min(keys.y, (split + 1u) * SPLIT_KEYS));
    let factors = mergeFactors(rowMax, splitMax);
    rowMax = max(rowMax, splitMax);
    rowSum = fma(rowSum, factors.x, splitSum * factors.y);
    #for w HEAD_WORDS
    value$w = fma(value$w, vec4<f32>(factors.x), splitValue$w * factors.y);
    #end
  }
  let at = (row * params.heads + head) * HEAD_WORDS;
  #for w HEAD_WORDS
  output[at + $wu] = value$w / rowSum;
  #end
}
