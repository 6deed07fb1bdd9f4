// Four outputs of a row: output[r, o] = source[r, o] + scale * sum over j of B[adapter][i, j] * shrunk[r, j], in order of j.
//
// What low-rank-expand.wgsl and low-rank-row.wgsl share, so that both give the same bits; they tell of the names, and
// where `shrunkWord` finds four of shrunk.

// Where output `o` lies in tiles, of a module whose pairs begin at `firstPair` and lie from `firstPlace` on.
fn placeOf(o: u32, firstPair: u32, firstPlace: u32) -> u32 {
  let inBlock = o % (2u * params.half);
  let second = u32(inBlock >= params.half);
  let pair = (o - inBlock) / 2u + inBlock - second * params.half - firstPair;
  return firstPlace + pair / 32u * 64u + pair % 32u / 4u + 8u * (pair % 4u) + 32u * second;
}

// Output `to` of what lies at `place`, of tiles where there are some. Not + 0: a negative zero keeps its bits.
fn put(to: u32, place: u32, sum: f32, adds: bool) {
  var x: f32;
  if (params.half == 0u) {
    x = output[place];
  } else {
    x = tiles[place];
  }
  if (adds) {
    x = fma(params.scale, sum, x);
  }
  output[to] = x;
}

// Word `wordOfRow` of a row's outputs, each module's from a word on; adapter 0: the row has none.
fn expandWord(row: u32, adapter: u32, wordOfRow: u32) {
  // Which module's word this is, and where that module's outputs are.
  var word = wordOfRow;
  var matrix = 0u;
  var outputs = params.outputs0;
  var at = 0u;
  var firstPair = params.pairs0;
  var firstPlace = params.places0;
  if (word >= (outputs + 3u) / 4u) {
    word -= (outputs + 3u) / 4u;
    at = outputs;
    outputs = params.outputs1;
    matrix = 1u;
    firstPair = params.pairs1;
    firstPlace = params.places1;
    if (word >= (outputs + 3u) / 4u) {
      word -= (outputs + 3u) / 4u;
      at += outputs;
      outputs = params.outputs2;
      matrix = 2u;
      firstPair = params.pairs2;
      firstPlace = params.places2;
    }
  }
  var count = 0u;
  if (adapter != 0u) {
    count = counts[(adapter - 1u) * params.modules + matrix];
  }
  if (count == 0u && params.half == 0u) {
    return;
  }
  var sums = vec4<f32>();
  var bAt = (adapter - 1u) * params.maxRankWords * 4u * params.outputWords + wordOfRow;
  for (var j = 0u; j * 4u < count; j++) {
    let x = shrunkWord(row, matrix * params.maxRankWords + j);
    sums = fma(b[bAt], vec4<f32>(x.x), sums);
    sums = fma(b[bAt + params.outputWords], vec4<f32>(x.y), sums);
    sums = fma(b[bAt + 2u * params.outputWords], vec4<f32>(x.z), sums);
    sums = fma(b[bAt + 3u * params.outputWords], vec4<f32>(x.w), sums);
    bAt += 4u * params.outputWords;
  }
  let first = at + word * 4u;
  let to = row * params.stride + first;
  let left = outputs - word * 4u;
  // One by one, by name: an index into a vector is slow on a processor.
  var places = vec4<u32>(to, to + 1u, to + 2u, to + 3u);
  if (params.half != 0u) {
    let place = row * params.tilesStride + placeOf(first, firstPair, firstPlace);
    places = vec4<u32>(place, place + 8u, place + 16u, place + 24u);
    // Where pairs lie by fours, four outputs from a word on are 8 places apart.
    if (params.half % 4u != 0u || first % 4u != 0u) {
      places.y = row * params.tilesStride + placeOf(first + 1u, firstPair, firstPlace);
      places.z = row * params.tilesStride + placeOf(first + 2u, firstPair, firstPlace);
      places.w = row * params.tilesStride + placeOf(first + 3u, firstPair, firstPlace);
    }
  }
  let adds = count != 0u;
  put(to, places.x, sums.x, adds);
  if (left > 1u) {
    put(to + 1u, places.y, sums.y, adds);
  }
  if (left > 2u) {
    put(to + 2u, places.z, sums.z, adds);
  }
  if (left > 3u) {
    put(to + 3u, places.w, sums.w, adds);
  }
}
