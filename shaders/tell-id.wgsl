// A row's id, its logprob where that is asked for, and the slot's last id. The kernel declares `step`, `rows`, `results` and
// `lastIds`; prepend sampler-state.wgsl.

// `bits`: of the id's logit.
fn tellId(row: u32, record: u32, id: u32, bits: u32) {
  let at = step[STEP_LOGITS_AT] + record * 16u;
  let flags = step[at + 2u];
  let rowAt = row * ROW_STATE;
  var logprob = 0u;
  if ((flags & LOGITS_LOGPROB) != 0u) {
    logprob = bitcast<u32>(logprobOf(
      bits,
      bitcast<f32>(rows[rowAt + ROW_HIGH]),
      bitcast<f32>(rows[rowAt + ROW_TEMPERATURE]),
      bitcast<f32>(rows[rowAt + ROW_LN_TOTAL]),
    ));
  }
  results[record * 4u] = id;
  results[record * 4u + 2u] = logprob;
  if ((flags & (LOGITS_WRITES_SLOT | LOGITS_SCORED)) == LOGITS_WRITES_SLOT) {
    lastIds[step[at + 1u]] = id;
  }
}
