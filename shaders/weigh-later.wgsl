// Whether a draw that waits stays is for weigh-above.wgsl and accept-draw.wgsl. Part of row-stats.wgsl, in place of
// weigh-regions.wgsl.
fn settled(lane: u32, draw: Draw, some: bool) -> bool {
  return false;
}
