// Attention by workgroups, for adapters with many cores: what attention-whole.wgsl and attention-parts.wgsl compute,
// by the same sums in the same order, so all forms give the same bits.
//
//   step    metadata; whole rows, or parts = split items
//   query   [maxRows, heads, HEAD_WORDS] vec4
//   kv      [blocks, 2 (k, v), kvHeads, 16 tokens, HEAD_WORDS] words of four
//   output  WHOLE: [maxRows, heads, HEAD_WORDS] vec4; PARTS: [split items, heads, 1 + HEAD_WORDS] vec4, as
//           attention-parts.wgsl says
//
// A line is a row and one of the heads that share a KV head. A workgroup has LINES of them and brings each block of 16
// keys, then of 16 values, into its memory once for all. WHOLE: the lines of a KV head, row by row, LINES a workgroup,
// which walks the splits of one sequence after the other where its rows are of several. PARTS: the lines of one split
// item. Of a split of 64 keys a thread computes KEYS scores of a line at a time; then, for each of its PAIRS, it adds one
// word of a line's values, key by key, and merges splits in order.
//
// Memory of a workgroup: 16 (16 + 16 HEAD_WORDS) + LINES (16 HEAD_WORDS + 264) bytes.
// Prepend the constants HEAD_WORDS, LINES and THREADS, and the files step, attention-keys, kv-* and attention-merge-rule; a template.
// A word more a key, so that neighbouring keys lie in other banks.
const KEY_WORDS = HEAD_WORDS + 1u;
const LINE_THREADS = THREADS / LINES;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> query: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> kv: array<KvWord>;
@group(0) @binding(4) var<storage, read_write> output: array<vec4<f32>>;

var<workgroup> block: array<vec4<f32>, BLOCK_TOKENS * KEY_WORDS>;
var<workgroup> queries: array<vec4<f32>, LINES * HEAD_WORDS>;
// Scores of a split, then their weights.
var<workgroup> weights: array<f32, LINES * SPLIT_KEYS>;
// The keys [x, y) that a line sees.
var<workgroup> visible: array<vec2<u32>, LINES>;

// Brings K (offset 0) or V of a block into the workgroup's memory.
fn loadBlock(lane: u32, tableAt: u32, kvHead: u32, key: u32, offset: u32) {
  let begin = ((step[tableAt + key / BLOCK_TOKENS] * 2u + offset) * params.kvHeads + kvHead) * BLOCK_TOKENS * HEAD_WORDS;
  for (var i = lane; i < BLOCK_TOKENS * HEAD_WORDS; i += THREADS) {
    block[i / HEAD_WORDS * KEY_WORDS + i % HEAD_WORDS] = kvUnpack(kv[begin + i]);
  }
}

@compute @workgroup_size(THREADS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group.y * groups.x + group.x;
  let headsEach = params.heads / params.kvHeads;
  #if WHOLE
  let kvHead = index % params.kvHeads;
  let lines = step[STEP_WHOLE_ROWS] * headsEach;
  let firstLine = index / params.kvHeads * LINES;
  if (firstLine >= lines) {
    return;
  }
  let lastLine = min(firstLine + LINES, lines) - 1u;
  #end
  #if PARTS
  let chunks = (headsEach + LINES - 1u) / LINES;
  let item = index / chunks / params.kvHeads;
  if (item >= step[STEP_SPLIT_ITEMS]) {
    return;
  }
  let kvHead = index / chunks % params.kvHeads;
  let firstLine = index % chunks * LINES;
  let lastLine = min(firstLine + LINES, headsEach) - 1u;
  let itemAt = step[STEP_SPLIT_ITEMS_AT] + item * 2u;
  let row = step[itemAt];
  // Behind the window: the merge doesn't read it.
  if ((step[itemAt + 1u] + 1u) * SPLIT_KEYS <= visibleKeys(row).x) {
    return;
  }
  #end
  for (var i = lane; i < LINES * HEAD_WORDS; i += THREADS) {
    let line = min(firstLine + i / HEAD_WORDS, lastLine);
    #if WHOLE
    let row = step[step[STEP_WHOLE_ROWS_AT] + line / headsEach];
    #end
    queries[i] = query[(row * params.heads + kvHead * headsEach + line % headsEach) * HEAD_WORDS + i % HEAD_WORDS];
  }
  if (lane < LINES) {
    visible[lane] = vec2<u32>();
    if (firstLine + lane <= lastLine) {
      #if WHOLE
      let row = step[step[STEP_WHOLE_ROWS_AT] + (firstLine + lane) / headsEach];
      #end
      visible[lane] = visibleKeys(row);
    }
  }
  workgroupBarrier();
  #for p PAIRS
  let line$p = ($pu * THREADS + lane) / HEAD_WORDS % LINES;
  let word$p = ($pu * THREADS + lane) % HEAD_WORDS;
  var rowMax$p = MASKED;
  var rowSum$p = 0.0;
  var value$p = vec4<f32>();
  #end
  let scoreLine = lane / LINE_THREADS;
  #if WHOLE
  // A stretch of rows of one sequence after the other.
  var entry = firstLine / headsEach;
  let lastEntry = lastLine / headsEach;
  while (entry <= lastEntry) {
    let row = step[step[STEP_WHOLE_ROWS_AT] + entry];
    let sequenceAt = stepSequenceAt(row);
    let begin = entry;
    var keys = visibleKeys(row);
    entry++;
    while (entry <= lastEntry) {
      let next = step[step[STEP_WHOLE_ROWS_AT] + entry];
      if (stepSequenceAt(next) != sequenceAt) {
        break;
      }
      let more = visibleKeys(next);
      keys = vec2<u32>(min(keys.x, more.x), max(keys.y, more.y));
      entry++;
    }
    let fromLine = max(begin * headsEach, firstLine) - firstLine;
    let endLine = min(entry * headsEach, lastLine + 1u) - firstLine;
    for (var split = keys.x / SPLIT_KEYS; split * SPLIT_KEYS < keys.y; split++) {
  #end
  #if PARTS
  {
    let sequenceAt = stepSequenceAt(row);
    let keys = visibleKeys(row);
    let fromLine = 0u;
    let endLine = lastLine + 1u - firstLine;
    {
      let split = step[itemAt + 1u];
  #end
      let splitKey = split * SPLIT_KEYS;
      let tableAt = step[sequenceAt + params.tableWord];
      let firstBlock = max(keys.x, splitKey) / BLOCK_TOKENS * BLOCK_TOKENS;
      let end = min(keys.y, splitKey + SPLIT_KEYS);
      let scoreKeys = visible[scoreLine];
      let isScored = scoreLine >= fromLine && scoreLine < endLine;
      for (var key = firstBlock; key < end; key += BLOCK_TOKENS) {
        workgroupBarrier();
        loadBlock(lane, tableAt, kvHead, key, 0u);
        workgroupBarrier();
        #for k KEYS
        var product$k = vec4<f32>();
        #end
        for (var word = 0u; word < HEAD_WORDS; word++) {
          let q = queries[scoreLine * HEAD_WORDS + word];
          #for k KEYS
          product$k = fma(q, block[(lane % LINE_THREADS + $ku * LINE_THREADS) * KEY_WORDS + word], product$k);
          #end
        }
        #for k KEYS
        {
          let own = key + lane % LINE_THREADS + $ku * LINE_THREADS;
          let score = scoreOf(product$k);
          let sees = isScored && own >= scoreKeys.x && own < scoreKeys.y;
          weights[scoreLine * SPLIT_KEYS + own - splitKey] = select(MASKED, score, sees);
        }
        #end
      }
      workgroupBarrier();
      #for p PAIRS
      let keys$p = visible[line$p];
      let first$p = max(keys$p.x, splitKey);
      let end$p = min(keys$p.y, splitKey + SPLIT_KEYS);
      let sees$p = line$p >= fromLine && line$p < endLine && first$p < end$p;
      var high$p = MASKED;
      if (sees$p) {
        for (var key = first$p; key < end$p; key++) {
          high$p = max(high$p, weights[line$p * SPLIT_KEYS + key - splitKey]);
        }
      }
      var sum$p = 0.0;
      var part$p = vec4<f32>();
      #end
      for (var key = firstBlock; key < end; key += BLOCK_TOKENS) {
        workgroupBarrier();
        loadBlock(lane, tableAt, kvHead, key, 1u);
        workgroupBarrier();
        #for p PAIRS
        if (sees$p) {
          for (var own = max(key, first$p); own < min(key + BLOCK_TOKENS, end$p); own++) {
            let weight = exp(weights[line$p * SPLIT_KEYS + own - splitKey] - high$p);
            sum$p += weight;
            part$p = fma(vec4<f32>(weight), block[(own - key) * KEY_WORDS + word$p], part$p);
          }
        }
        #end
      }
      #for p PAIRS
      if (sees$p) {
        #if WHOLE
        let factors = mergeFactors(rowMax$p, high$p);
        rowMax$p = max(rowMax$p, high$p);
        rowSum$p = fma(rowSum$p, factors.x, sum$p * factors.y);
        value$p = fma(value$p, vec4<f32>(factors.x), part$p * factors.y);
        #end
        #if PARTS
        rowMax$p = high$p;
        rowSum$p = sum$p;
        value$p = part$p;
        #end
      }
      #end
    }
  }
  #for p PAIRS
  if ($pu * THREADS + lane < LINES * HEAD_WORDS && firstLine + line$p <= lastLine) {
    let head = kvHead * headsEach + (firstLine + line$p) % headsEach;
    #if WHOLE
    let row = step[step[STEP_WHOLE_ROWS_AT] + (firstLine + line$p) / headsEach];
    output[(row * params.heads + head) * HEAD_WORDS + word$p] = value$p / rowSum$p;
    #end
    #if PARTS
    let partAt = (item * params.heads + head) * (HEAD_WORDS + 1u);
    if (word$p == 0u) {
      output[partAt] = vec4<f32>(rowMax$p, rowSum$p, 0.0, 0.0);
    }
    output[partAt + 1u + word$p] = value$p;
    #end
  }
  #end
}
