// Which pair a thread's row of a tile belongs to, where the row is its pair's first (src/gpu/pair-order.ts).
fn pairOf(tile: u32, row: u32) -> u32 {
  return params.outputAt + (tile * 8u + row % 8u) * 4u + row / 8u;
}
