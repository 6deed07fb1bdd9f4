// Threefry-2x32-20 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): a counter-based generator,
// so a draw depends on its key and counter only, and is the same on every adapter.
fn threefry(key: vec2<u32>, counter: vec2<u32>) -> vec2<u32> {
  var keys = array<u32, 3>(key.x, key.y, 0x1bd11bdau ^ key.x ^ key.y);
  var rotations = array<u32, 8>(13u, 15u, 26u, 6u, 17u, 29u, 16u, 24u);
  var x = counter + key;
  for (var round = 0u; round < 20u; round++) {
    let turn = rotations[round % 8u];
    x.x += x.y;
    x.y = ((x.y << turn) | (x.y >> (32u - turn))) ^ x.x;
    if (round % 4u == 3u) {
      let injection = round / 4u + 1u;
      x.x += keys[injection % 3u];
      x.y += keys[(injection + 1u) % 3u] + injection;
    }
  }
  return x;
}
