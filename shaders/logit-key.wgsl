// An order-preserving u32 key of a logit: a < b as floats iff key(a) < key(b); -0, +0 and all below the least normal float
// are one key, since a shader may compare these as zero. Comparing keys instead of floats keeps NaN (which a shader may
// assume away) out of every decision.
fn bitsKey(logitBits: u32) -> u32 {
  var bits = logitBits;
  if ((bits & 0x7f800000u) == 0u) {
    bits = 0u;
  }
  if ((bits & 0x80000000u) != 0u) {
    return ~bits;
  }
  return bits | 0x80000000u;
}

fn logitKey(logit: f32) -> u32 {
  return bitsKey(bitcast<u32>(logit));
}

fn keyLogit(key: u32) -> f32 {
  if ((key & 0x80000000u) != 0u) {
    return bitcast<f32>(key & 0x7fffffffu);
  }
  return bitcast<f32>(~key);
}

// NaN or infinity. Of bits that were never an f32 in the shader: it may assume that an f32 is neither.
fn isNonFinite(logitBits: u32) -> bool {
  return (logitBits & 0x7f800000u) == 0x7f800000u;
}
