// The draw's uniform, in [0, 1), 24 bits of Threefry(seed, (output position, sample index)), and the bucket that a
// running mass is in. The kernel declares `step` and `jobs`; prepend threefry.wgsl and sampler-state.wgsl.
fn uniformOf(logitsAt: u32) -> f32 {
  let key = vec2<u32>(step[logitsAt + 8u], step[logitsAt + 9u]);
  let counter = vec2<u32>(step[logitsAt + 3u], step[logitsAt + 10u]);
  return f32(threefry(key, counter).x >> 8u) / 16777216.0;
}

// The first bucket up to `last` whose end is past `mass`; where rounding puts it past all, the last that adds to it.
fn bucketAt(jobAt: u32, mass: f32, last: u32) -> u32 {
  let above = jobAt + JOB_ABOVE;
  let all = bitcast<f32>(jobs[above + last + 1u]);
  var least = 0u;
  var most = last;
  while (least < most) {
    let middle = (least + most) / 2u;
    let through = bitcast<f32>(jobs[above + middle + 1u]);
    if (through > mass || through >= all) {
      most = middle;
    } else {
      least = middle + 1u;
    }
  }
  return least;
}
