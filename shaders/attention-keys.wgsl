// What all forms of attention declare alike: their uniform, which keys a row sees, and what a product of query and key
// becomes. A template; prepend step.wgsl and tanh.wgsl.
const SPLIT_KEYS = 64u;
const MASKED = -3.0e38;

struct Params {
  heads: u32,
  kvHeads: u32,
  scale: f32,
  // Keys a row sees, itself included; 0: all of them.
  window: u32,
  // 1: a row sees the keys after it too.
  bidirectional: u32,
  // Which word of a sequence has its block table.
  tableWord: u32,
  // Of CAPPED: scores become cap tanh(score / cap).
  cap: f32,
}

fn tableOf(row: u32) -> u32 {
  return step[stepSequenceAt(row) + params.tableWord];
}

fn scoreOf(product: vec4<f32>) -> f32 {
  let score = ((product.x + product.y) + (product.z + product.w)) * params.scale;
  #if CAPPED
  return boundedTanh(score / params.cap) * params.cap;
  #end
  #if PLAIN
  return score;
  #end
}

// Keys [x, y) that a row sees.
fn visibleKeys(row: u32) -> vec2<u32> {
  let position = stepPosition(row);
  var first = 0u;
  if (params.window > 0u && position + 1u > params.window) {
    first = position + 1u - params.window;
  }
  var end = position + 1u;
  if (params.bidirectional == 1u) {
    end = step[stepSequenceAt(row) + 3u];
  }
  return vec2<u32>(first, end);
}
