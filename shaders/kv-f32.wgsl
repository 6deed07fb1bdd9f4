// Four values of K or V in 16 bytes.
alias KvWord = vec4<f32>;

fn kvUnpack(word: KvWord) -> vec4<f32> {
  return word;
}

fn kvPack(values: vec4<f32>) -> KvWord {
  return values;
}
