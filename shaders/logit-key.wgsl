// An order-preserving u32 key of a logit: a < b as floats iff key(a) < key(b); -0 and +0 are one key. Comparing keys
// instead of floats keeps NaN (which a shader may assume away) out of every decision.
fn logitKey(logit: f32) -> u32 {
  var bits = bitcast<u32>(logit);
  if (bits == 0x80000000u) {
    bits = 0u;
  }
  if ((bits & 0x80000000u) != 0u) {
    return ~bits;
  }
  return bits | 0x80000000u;
}

fn keyLogit(key: u32) -> f32 {
  if ((key & 0x80000000u) != 0u) {
    return bitcast<f32>(key & 0x7fffffffu);
  }
  return bitcast<f32>(~key);
}

// NaN or infinity, seen on the bits.
fn isNonFinite(logit: f32) -> bool {
  return (bitcast<u32>(logit) & 0x7f800000u) == 0x7f800000u;
}
