// What the forms of attention share: a softmax over one split of 64 keys, and the merge of splits in order.
//
// A split holds the keys with position / 64 = split, whatever chunk, batch or form they are met in, so a row's sum
// has the same order everywhere: prefill, chunked prefill and decode give the same bits.
// The kernel declares `params` (below), `step`, `query`, `kv`; prepend step.wgsl, attention-keys.wgsl, kv-*.wgsl and
// `const HEAD_WORDS`.
//
// Lines of a #for stand HEAD_WORDS times (src/gpu/template.ts): a head's words are variables of their own and stay in
// registers, where an indexed array would lie in memory, at three times the time.
var<private> scores: array<f32, SPLIT_KEYS>;
var<private> splitMax: f32;
var<private> splitSum: f32;
#for w HEAD_WORDS
var<private> splitValue$w: vec4<f32>;
#end

// Where the words of a key begin; those of the block's later keys follow it.
fn keyAt(tableAt: u32, kvHead: u32, key: u32) -> u32 {
  let block = step[tableAt + key / BLOCK_TOKENS];
  return ((block * 2u * params.kvHeads + kvHead) * BLOCK_TOKENS + key % BLOCK_TOKENS) * HEAD_WORDS;
}

// Attends one head of a row to the keys [first, end), all of one split; leaves splitMax, splitSum, splitValue0 …
fn attendSplit(row: u32, head: u32, first: u32, end: u32) {
  let queryAt = (row * params.heads + head) * HEAD_WORDS;
  let kvHead = head / (params.heads / params.kvHeads);
  let tableAt = tableOf(row);
  let valueOffset = params.kvHeads * BLOCK_TOKENS * HEAD_WORDS;
  #for w HEAD_WORDS
  let query$w = query[queryAt + $wu];
  #end
  var high = MASKED;
  var key = first;
  while (key < end) {
    var at = keyAt(tableAt, kvHead, key);
    let blockEnd = min(end, (key / BLOCK_TOKENS + 1u) * BLOCK_TOKENS);
    for (; key < blockEnd; key++) {
      var product = vec4<f32>();
      #for w HEAD_WORDS
      product = fma(query$w, kvUnpack(kv[at + $wu]), product);
      #end
      at += HEAD_WORDS;
      let score = scoreOf(product);
      scores[key - first] = score;
      high = max(high, score);
    }
  }
  var sum = 0.0;
  #for w HEAD_WORDS
  var value$w = vec4<f32>();
  #end
  key = first;
  while (key < end) {
    var at = keyAt(tableAt, kvHead, key) + valueOffset;
    let blockEnd = min(end, (key / BLOCK_TOKENS + 1u) * BLOCK_TOKENS);
    for (; key < blockEnd; key++) {
      let weight = exp(scores[key - first] - high);
      sum += weight;
      #for w HEAD_WORDS
      value$w = fma(vec4<f32>(weight), kvUnpack(kv[at + $wu]), value$w);
      #end
      at += HEAD_WORDS;
    }
  }
  splitMax = high;
  splitSum = sum;
  #for w HEAD_WORDS
  splitValue$w = value$w;
  #end
}
