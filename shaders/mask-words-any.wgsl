// As mask-words.wgsl, for any vocabulary.
@group(0) @binding(3) var<storage, read_write> logits: array<u32>;

fn maskLogits(at: u32, count: u32, bits: u32) {
  for (var i = 0u; i < count; i++) {
    if (((bits >> i) & 1u) == 0u && !isNonFinite(logits[at + i])) {
      logits[at + i] = MASKED_LOGIT;
    }
  }
}
