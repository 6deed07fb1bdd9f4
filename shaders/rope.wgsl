// Makes of q, k and v what attention takes: adds their biases, norms q and k, rotates these by their position, and puts k
// and v into their blocks.
//
//   x = qkv[r] + bias; of q and k with HEAD_NORM each head by itself, with ROW_NORM all heads of a row together:
//   x = gain * x / sqrt(mean(x^2) + epsilon); then, of q and k, of the first 2 half numbers of a head:
//   y[d] = x[d] cos(p f_d) - x[d + half] sin(p f_d)   for d < half
//   y[d] = x[d] cos(p f_d) + x[d - half] sin(p f_d)   for half <= d < 2 half, f_d = f_(d - half)
//
//   step   metadata; rows = step[0]
//   qkv    [rows, qkvStride] f32: heads of q, then of k, then of v
//   table  [positions, half] (cos, sin), made on the CPU in float64: WGSL's own lose digits past pi
//   query  [rows, heads * headWords] vec4
//   kv     [blocks, 2 (k, v), kvHeads, 16 tokens, headWords] words of four
//   more   [qkvStride] f32 biases, then gains: of a head of q and one of k, or of all heads of q and all of k
//
// A thread writes one word; with HEAD_NORM each sums its head's squares by itself: they are few, and none waits. With
// ROW_NORM a workgroup of 64 takes a row. Any head size that four divides works, also where half of it is odd.
// A template; prepend step.wgsl and a kv-*.wgsl.
struct Params {
  heads: u32,
  kvHeads: u32,
  headWords: u32,
  qkvStride: u32,
  // 0: nothing is rotated.
  half: u32,
  // Which word of a sequence has its block table.
  tableWord: u32,
  // 1: `more` has biases.
  biased: u32,
  epsilon: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> qkv: array<f32>;
@group(0) @binding(3) var<storage, read> table: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read_write> query: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> kv: array<KvWord>;
@group(0) @binding(6) var<storage, read> more: array<f32>;

fn biasedAt(row: u32, column: u32) -> f32 {
  let x = qkv[row * params.qkvStride + column];
  if (params.biased == 1u) {
    return x + more[column];
  }
  return x;
}

// Number d of a head, normed; `factor` is 1 / sqrt(mean(x^2) + epsilon).
fn numberOf(row: u32, head: u32, d: u32, factor: f32) -> f32 {
  let column = head * params.headWords * 4u + d;
  let x = biasedAt(row, column);
  #if HEAD_NORM
  if (head < params.heads + params.kvHeads) {
    let ofKey = select(0u, params.headWords * 4u, head >= params.heads);
    return x * factor * more[params.qkvStride + ofKey + d];
  }
  #end
  #if ROW_NORM
  if (head < params.heads + params.kvHeads) {
    return x * factor * more[params.qkvStride + column];
  }
  #end
  return x;
}

fn rotated(row: u32, head: u32, d: u32, position: u32, factor: f32) -> f32 {
  let half = params.half;
  let x = numberOf(row, head, d, factor);
  if (d >= 2u * half || head >= params.heads + params.kvHeads) {
    return x;
  }
  if (d < half) {
    let turn = table[position * half + d];
    return fma(x, turn.x, -(numberOf(row, head, d + half, factor) * turn.y));
  }
  let turn = table[position * half + d - half];
  return fma(x, turn.x, numberOf(row, head, d - half, factor) * turn.y);
}

// Writes word `index` of a row.
fn put(row: u32, index: u32, factor: f32) {
  let head = index / params.headWords;
  let word = index % params.headWords;
  let position = stepPosition(row);
  let d = word * 4u;
  let values = vec4<f32>(
    rotated(row, head, d, position, factor),
    rotated(row, head, d + 1u, position, factor),
    rotated(row, head, d + 2u, position, factor),
    rotated(row, head, d + 3u, position, factor),
  );
  if (head < params.heads) {
    query[row * params.heads * params.headWords + index] = values;
    return;
  }
  // K heads, then V heads: the same order as in a block.
  let kvHead = head - params.heads;
  let block = step[step[stepSequenceAt(row) + params.tableWord] + position / BLOCK_TOKENS];
  let slot = ((block * 2u * params.kvHeads + kvHead) * BLOCK_TOKENS + position % BLOCK_TOKENS) * params.headWords;
  kv[slot + word] = kvPack(values);
}

#if HEAD_NORM
fn headFactor(row: u32, head: u32) -> f32 {
  let begin = head * params.headWords * 4u;
  var squares = vec4<f32>();
  for (var d = begin; d < begin + params.headWords * 4u; d += 4u) {
    let x = vec4<f32>(biasedAt(row, d), biasedAt(row, d + 1u), biasedAt(row, d + 2u), biasedAt(row, d + 3u));
    squares = fma(x, x, squares);
  }
  let sum = (squares.x + squares.y) + (squares.z + squares.w);
  return 1.0 / sqrt(sum / f32(params.headWords * 4u) + params.epsilon);
}
#end
#if ROW_NORM
// Of each thread: squares of q, and of k.
var<workgroup> sums: array<vec2<f32>, 64>;
#end

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let rowWords = (params.heads + 2u * params.kvHeads) * params.headWords;
  #if THREAD_A_WORD
  let index = (group.y * groups.x + group.x) * 64u + lane;
  let row = index / rowWords;
  if (row >= step[STEP_ROWS]) {
    return;
  }
  var factor = 1.0;
  #if HEAD_NORM
  factor = headFactor(row, index % rowWords / params.headWords);
  #end
  put(row, index % rowWords, factor);
  #end
  #if ROW_NORM
  let row = group.y * groups.x + group.x;
  if (row >= step[STEP_ROWS]) {
    return;
  }
  let queries = params.heads * params.headWords * 4u;
  let keys = params.kvHeads * params.headWords * 4u;
  var own = vec2<f32>();
  for (var column = lane; column < queries + keys; column += 64u) {
    let x = biasedAt(row, column);
    own = fma(vec2<f32>(x), select(vec2<f32>(0.0, x), vec2<f32>(x, 0.0), column < queries), own);
  }
  sums[lane] = own;
  workgroupBarrier();
  var sum = vec2<f32>();
  for (var i = 0u; i < 64u; i++) {
    sum += sums[i];
  }
  let factors = 1.0 / sqrt(sum / vec2<f32>(f32(queries), f32(keys)) + params.epsilon);
  for (var index = lane; index < rowWords; index += 64u) {
    put(row, index, select(factors.y, factors.x, index < params.heads * params.headWords));
  }
  #end
}
