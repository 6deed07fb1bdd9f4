// A tile's logits, four at a time, where the vocabulary is a multiple of four; mask-words-any.wgsl is for the rest.
//
//   logits  [tile rows, vocabulary] f32, seen as u32: a shader may assume that an f32 is no NaN
@group(0) @binding(3) var<storage, read_write> logits: array<vec4<u32>>;

// Masks those of `count` logits from `at` on that have no bit.
fn maskLogits(at: u32, count: u32, bits: u32) {
  for (var i = 0u; i < count; i += 4u) {
    let four = logits[(at + i) / 4u];
    let allowed = ((vec4<u32>(bits >> i) >> vec4<u32>(0u, 1u, 2u, 3u)) & vec4<u32>(1u)) != vec4<u32>(0u);
    let kept = allowed | ((four & vec4<u32>(0x7f800000u)) == vec4<u32>(0x7f800000u));
    logits[(at + i) / 4u] = select(vec4<u32>(MASKED_LOGIT), four, kept);
  }
}
