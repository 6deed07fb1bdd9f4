// sum[r, o] = source[r, o] + scale * sum over j of B[adapter of row r][m][i, j] * shrunk[r, j of m], o = at[m] + i, and then
//
//   ADD     output[r, o] = sum[r, o], whose source is output itself: rows without an adapter, and modules that an adapter
//           leaves alone, aren't touched
//   GATE    output[r, i] = activation(sum[r, i]) * sum[r, columns + i] of two modules, gate and up; see activation.wgsl
//   ROTATE  query, key and value heads, rotated and put where attention finds them; see rope.wgsl
//
// The second half of a low-rank update, and what is otherwise the finish of the product that it updates: of GATE and ROTATE
// a product stored its sums in the order of its matrix's tiles, and all rows come from there, those without an adapter too,
// whose bits are those of the product's own finish (linear-finish.wgsl).
//
//   step    metadata; rows = step[0]
//   shrunk  [rows, splits, modules * maxRankWords] vec4 of low-rank-shrink.wgsl; its splits are added in order
//   b       [slots, maxRankWords, outputWords, 4] vec4: of four outputs four columns j, one after the other. A module has
//           2 ⌈outputs / 8⌉ words, zero past its last output, and of columns that an adapter hasn't. Of ROTATE rows i and
//           i + half of each 2 half belong together: four pairs are a word of firsts and one of seconds
//   counts  [slots, modules] u32: columns of a module's B that its adapter has
//   output  ADD: [rows, stride] f32, modules one behind the other. GATE: the same of columns. ROTATE: [rows, heads, 2 half]
//   tiles   [rows, tilesStride] f32 in the order of src/gpu/pair-order.ts, of GATE from pair 0 on; of ROTATE pairs of module m
//           are counted from pairs<m>, which has place places<m>
//   table   [positions, half] (cos, sin)
//   kv      [blocks, 2 (k, v), kvHeads, 16 tokens, 2 half]
//
// A thread has eight outputs of a row that share what shrinking left, of GATE eight pairs; neighbours have neighbouring words
// of B. A template; prepend step.wgsl, of GATE activation.wgsl, `const THREADS` and `const THREAD_WORDS`, the words of B that a
// thread has.
struct Params {
  outputWords: u32,
  maxRankWords: u32,
  modules: u32,
  splits: u32,
  #if ADD
  stride: u32,
  scale: f32,
  outputs0: u32,
  outputs1: u32,
  outputs2: u32,
  #end
  #if GATE
  stride: u32,
  columns: u32,
  tilesStride: u32,
  // As sigmoidProduct takes them.
  linear: f32,
  cubic: f32,
  #end
  #if ROTATE
  heads: u32,
  kvHeads: u32,
  half: u32,
  // Heads that are rotated: of q and k, or none.
  turned: u32,
  // Which word of a sequence has its block table.
  tableWord: u32,
  tilesStride: u32,
  pairs1: u32,
  pairs2: u32,
  places1: u32,
  places2: u32,
  #end
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> shrunk: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> counts: array<u32>;
@group(0) @binding(5) var<storage, read_write> output: array<f32>;
#if TILES
@group(0) @binding(6) var<storage, read> tiles: array<f32>;
#end
#if ROTATE
@group(0) @binding(7) var<storage, read> table: array<vec2<f32>>;
@group(0) @binding(8) var<storage, read_write> kv: array<f32>;
#end

// Two words of sums.
struct Sums {
  first: vec4<f32>,
  second: vec4<f32>,
}

// How many ranks adapter `adapter` has of a module; 0: none, or no adapter.
fn ranksOf(adapter: u32, matrix: u32) -> u32 {
  if (adapter == 0u) {
    return 0u;
  }
  return counts[(adapter - 1u) * params.modules + matrix];
}

// Word j of four of what shrinking left of a row: its splits in order.
fn shrunkWord(row: u32, j: u32) -> vec4<f32> {
  let ranks = params.modules * params.maxRankWords;
  let at = row * params.splits * ranks + j;
  var x = shrunk[at];
  for (var split = 1u; split < params.splits; split++) {
    x += shrunk[at + split * ranks];
  }
  return x;
}

// What the adapter adds to outputs of words `word` and `word` + 1 of a row of B, in order of j.
fn expand(row: u32, adapter: u32, matrix: u32, word: u32, count: u32) -> Sums {
  var sums = Sums(vec4<f32>(), vec4<f32>());
  var at = ((adapter - 1u) * params.maxRankWords * params.outputWords + word) * 4u;
  for (var j = 0u; j * 4u < count; j++) {
    let x = shrunkWord(row, matrix * params.maxRankWords + j);
    #for k 4
    sums.first = fma(b[at + $ku], vec4<f32>(x[$k]), sums.first);
    sums.second = fma(b[at + 4u + $ku], vec4<f32>(x[$k]), sums.second);
    #end
    at += 4u * params.outputWords;
  }
  return sums;
}

#if TILES
// Where the first of pair `pair` lies in its tiles; its second lies 32 places behind.
fn placeOf(pair: u32) -> u32 {
  return pair / 32u * 64u + pair % 32u / 4u + 8u * (pair % 4u);
}
#end

#if ADD
fn put(to: u32, sum: f32) {
  output[to] = fma(params.scale, sum, output[to]);
}

fn finish(row: u32, index: u32) {
  var word = index * 2u;
  // Which module's word this is, and where that module's outputs are.
  var matrix = 0u;
  var outputs = params.outputs0;
  var at = 0u;
  if (word >= (outputs + 7u) / 8u * 2u) {
    word -= (outputs + 7u) / 8u * 2u;
    at = outputs;
    outputs = params.outputs1;
    matrix = 1u;
    if (word >= (outputs + 7u) / 8u * 2u) {
      word -= (outputs + 7u) / 8u * 2u;
      at += outputs;
      outputs = params.outputs2;
      matrix = 2u;
    }
  }
  let adapter = stepAdapter(row);
  let count = ranksOf(adapter, matrix);
  if (count == 0u) {
    return;
  }
  let sums = expand(row, adapter, matrix, index * 2u, count);
  let to = row * params.stride + at + word * 4u;
  let left = outputs - word * 4u;
  #for i 4
  if (left > $iu) {
    put(to + $iu, sums.first[$i]);
  }
  #end
  #for i 4
  if (left > 4u + $iu) {
    put(to + 4u + $iu, sums.second[$i]);
  }
  #end
}
#end

#if GATE
fn put(row: u32, pair: u32, gate: f32, up: f32) {
  if (pair < params.columns) {
    output[row * params.stride + pair] = sigmoidProduct(gate, params.linear, params.cubic) * up;
  }
}

fn finish(row: u32, index: u32) {
  let pair = index * 8u;
  let place = row * params.tilesStride + placeOf(pair);
  // Four neighbouring pairs lie 8 places apart, the next four one place behind them.
  var gate = Sums(
    vec4<f32>(tiles[place], tiles[place + 8u], tiles[place + 16u], tiles[place + 24u]),
    vec4<f32>(tiles[place + 1u], tiles[place + 9u], tiles[place + 17u], tiles[place + 25u]),
  );
  var up = Sums(
    vec4<f32>(tiles[place + 32u], tiles[place + 40u], tiles[place + 48u], tiles[place + 56u]),
    vec4<f32>(tiles[place + 33u], tiles[place + 41u], tiles[place + 49u], tiles[place + 57u]),
  );
  let adapter = stepAdapter(row);
  // Not + 0 where there is nothing to add: a negative zero keeps its bits.
  let ofGate = ranksOf(adapter, 0u);
  if (ofGate != 0u) {
    let sums = expand(row, adapter, 0u, index * 2u, ofGate);
    gate.first += sums.first;
    gate.second += sums.second;
  }
  let ofUp = ranksOf(adapter, 1u);
  if (ofUp != 0u) {
    let sums = expand(row, adapter, 1u, params.outputWords / 2u + index * 2u, ofUp);
    up.first += sums.first;
    up.second += sums.second;
  }
  #for i 4
  put(row, pair + $iu, gate.first[$i], up.first[$i]);
  put(row, pair + 4u + $iu, gate.second[$i], up.second[$i]);
  #end
}
#end

#if ROTATE
// Pair d of a head; `block`: the one that has the row's k and v.
fn put(row: u32, head: u32, d: u32, position: u32, block: u32, pair: vec2<f32>) {
  let half = params.half;
  var x = pair;
  if (head < params.turned) {
    let turn = table[position * half + d];
    x = vec2<f32>(fma(x.x, turn.x, -(x.y * turn.y)), fma(x.y, turn.x, x.x * turn.y));
  }
  if (head < params.heads) {
    let to = (row * params.heads + head) * 2u * half + d;
    output[to] = x.x;
    output[to + half] = x.y;
  } else {
    // K heads, then V heads: the same order as in a block.
    let slot = (block * 2u * params.kvHeads + head - params.heads) * BLOCK_TOKENS + position % BLOCK_TOKENS;
    kv[slot * 2u * half + d] = x.x;
    kv[slot * 2u * half + d + half] = x.y;
  }
}

fn finish(row: u32, index: u32) {
  let half = params.half;
  // Which module's word this is, where its pairs begin, and which place one of them has.
  var word = index;
  var matrix = 0u;
  var pairs = params.heads * half;
  var at = 0u;
  var counted = 0u;
  var placed = 0u;
  if (word >= (pairs + 3u) / 4u) {
    word -= (pairs + 3u) / 4u;
    at = pairs;
    pairs = params.kvHeads * half;
    matrix = 1u;
    counted = params.pairs1;
    placed = params.places1;
    if (word >= (pairs + 3u) / 4u) {
      word -= (pairs + 3u) / 4u;
      at += pairs;
      matrix = 2u;
      counted = params.pairs2;
      placed = params.places2;
    }
  }
  let position = stepPosition(row);
  let block = step[step[stepSequenceAt(row) + params.tableWord] + position / BLOCK_TOKENS];
  let adapter = stepAdapter(row);
  let count = ranksOf(adapter, matrix);
  var sums = Sums(vec4<f32>(), vec4<f32>());
  if (count != 0u) {
    sums = expand(row, adapter, matrix, index * 2u, count);
  }
  let first = at + word * 4u;
  let left = pairs - word * 4u;
  var head = first / half;
  var d = first - head * half;
  #for i 4
  if (left > $iu) {
    let place = row * params.tilesStride + placed + placeOf(first + $iu - counted);
    var x = vec2<f32>(tiles[place], tiles[place + 32u]);
    // Not + 0 where there is nothing to add: a negative zero keeps its bits.
    if (count != 0u) {
      x += vec2<f32>(sums.first[$i], sums.second[$i]);
    }
    put(row, head, d, position, block, x);
    d++;
    if (d == half) {
      d = 0u;
      head++;
    }
  }
  #end
}
#end

@compute @workgroup_size(THREADS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (group.y * groups.x + group.x) * THREADS + lane;
  let threads = params.outputWords / THREAD_WORDS;
  let row = index / threads;
  if (row >= step[STEP_ROWS]) {
    return;
  }
  finish(row, index - row * threads);
}
