// The draw's uniform, in [0, 1): 24 bits of Threefry(seed, (output position, sample index)). The kernel declares `step`;
// prepend threefry.wgsl.
fn uniformOf(logitsAt: u32) -> f32 {
  let key = vec2<u32>(step[logitsAt + 8u], step[logitsAt + 9u]);
  let counter = vec2<u32>(step[logitsAt + 3u], step[logitsAt + 10u]);
  return f32(threefry(key, counter).x >> 8u) / 16777216.0;
}
