// The bucket that a running mass is in. The kernel declares `jobs`; prepend sampler-state.wgsl.

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
