// What all forms of attention declare alike: their uniform, and which keys a row sees. Prepend step.wgsl.
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
