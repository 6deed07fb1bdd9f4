// Where a weight of a float format is: rows lie in tiles of 64, so that threads of neighbouring rows read neighbouring
// words. Word w (columns 4w to 4w + 3) of row r is at ((r / 64) * words + w) * 64 + r % 64. Prepend a weight-f*.wgsl or
// weight-bf16.wgsl, which unpacks a word; the kernel declares `weights: array<WeightWord>`.
const TILE = 64u;

fn weightAt(row: u32, word: u32, words: u32) -> vec4<f32> {
  return weightUnpack(weights[((row / TILE) * words + word) * TILE + row % TILE]);
}
