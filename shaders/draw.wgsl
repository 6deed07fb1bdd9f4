// A draw's uniform, in [0, 1): 24 bits of Threefry(seed, (output position, sample index + 2^24 floor(round / 2))), of its
// first word in even rounds, of its second in odd ones. The kernel declares `step`; prepend threefry.wgsl.
fn uniformOf(logitsAt: u32, round: u32) -> f32 {
  let key = vec2<u32>(step[logitsAt + 8u], step[logitsAt + 9u]);
  let counter = vec2<u32>(step[logitsAt + 3u], step[logitsAt + 10u] + ((round / 2u) << 24u));
  let words = threefry(key, counter);
  return f32(select(words.x, words.y, round % 2u == 1u) >> 8u) / 16777216.0;
}
