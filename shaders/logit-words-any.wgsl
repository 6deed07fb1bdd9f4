// As logit-words.wgsl, for any vocabulary: ids past its end are masked.
@group(0) @binding(2) var<storage, read> logits: array<u32>;

fn wordsOf(row: u32, vocabulary: u32) -> u32 {
  return row * vocabulary;
}

fn logitWord(wordsAt: u32, word: u32, vocabulary: u32) -> vec4<u32> {
  let at = wordsAt + word * 4u;
  return select(
    vec4<u32>(MASKED),
    vec4<u32>(logits[at], logits[at + 1u], logits[at + 2u], logits[at + 3u]),
    vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(vocabulary - word * 4u),
  );
}
