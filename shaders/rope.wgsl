// Rotates q and k by their position, and puts k and v where attention finds them.
//
//   y[d] = x[d] cos(p f_d) - x[d + n/2] sin(p f_d)   for d < n/2
//   y[d] = x[d] cos(p f_d) + x[d - n/2] sin(p f_d)   for d >= n/2, f_d = f_(d - n/2)
//
//   step   metadata; rows = step[0]
//   qkv    [rows, qkvStride] f32: heads of q, then of k, then of v
//   table  [positions, n/2] (cos, sin), made on the CPU in float64: WGSL's own lose digits past pi
//   query  [rows, heads * headWords] vec4
//   kv     [blocks, 2 (k, v), kvHeads, 16 tokens, headWords] words of four
//
// A thread writes one word. Any head size that four divides works, also where half of it is odd.
// Prepend step.wgsl and a kv-*.wgsl.
struct Params {
  heads: u32,
  kvHeads: u32,
  headWords: u32,
  qkvStride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> qkv: array<f32>;
@group(0) @binding(3) var<storage, read> table: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read_write> query: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> kv: array<KvWord>;

fn rotate(headAt: u32, d: u32, position: u32) -> f32 {
  let half = params.headWords * 2u;
  let x = qkv[headAt + d];
  if (d < half) {
    let turn = table[position * half + d];
    return fma(x, turn.x, -(qkv[headAt + d + half] * turn.y));
  }
  let turn = table[position * half + d - half];
  return fma(x, turn.x, qkv[headAt + d - half] * turn.y);
}

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (group.y * groups.x + group.x) * 64u + lane;
  let rowWords = (params.heads + 2u * params.kvHeads) * params.headWords;
  let row = index / rowWords;
  if (row >= step[STEP_ROWS]) {
    return;
  }
  let head = (index % rowWords) / params.headWords;
  let word = index % params.headWords;
  let position = stepPosition(row);
  let headAt = row * params.qkvStride + head * params.headWords * 4u;
  let d = word * 4u;
  var values: vec4<f32>;
  if (head < params.heads + params.kvHeads) {
    values = vec4<f32>(
      rotate(headAt, d, position),
      rotate(headAt, d + 1u, position),
      rotate(headAt, d + 2u, position),
      rotate(headAt, d + 3u, position),
    );
  } else {
    let at = headAt + d;
    values = vec4<f32>(qkv[at], qkv[at + 1u], qkv[at + 2u], qkv[at + 3u]);
  }
  if (head < params.heads) {
    query[(row * params.heads + head) * params.headWords + word] = values;
    return;
  }
  // K heads, then V heads: the same order as in a block.
  let kvHead = head - params.heads;
  let block = step[step[stepSequenceAt(row) + 4u] + position / BLOCK_TOKENS];
  let slot = ((block * 2u * params.kvHeads + kvHead) * BLOCK_TOKENS + position % BLOCK_TOKENS) * params.headWords;
  kv[slot + word] = kvPack(values);
}
