// A row's strands and chunks where chunk-stats.wgsl has been through its logits. Part of row-stats.wgsl.
@group(0) @binding(8) var<storage, read> chunks: array<u32>;

// Bits of the best logit of a chunk, and its weight.
fn chunkBest(chunk: u32) -> u32 {
  return chunks[chunksAt + chunk];
}

fn chunkWeight(chunk: u32) -> f32 {
  return bitcast<f32>(chunks[chunksAt + 2u * params.chunks + chunk]) * weightOf(bitcast<f32>(chunkBest(chunk)));
}

fn bestOfStrand(strand: u32) -> Strand {
  var all = Strand(-FLOAT_MAX, FLOAT_MAX, 0u);
  for (var chunk = strand; chunk < params.chunks; chunk += STRANDS) {
    all.best = max(all.best, bitcast<f32>(chunkBest(chunk)));
    // Not told of a row that isn't weighed.
    all.low = min(all.low, bitcast<f32>(chunks[chunksAt + 3u * params.chunks + chunk]));
    all.nonFinite |= chunks[chunksAt + params.chunks + chunk];
  }
  return all;
}

// A strand's chunks in order.
fn weightOfStrand(strand: u32) -> f32 {
  var sum = 0.0;
  for (var chunk = strand; chunk < params.chunks; chunk += STRANDS) {
    sum += chunkWeight(chunk);
  }
  return sum;
}
