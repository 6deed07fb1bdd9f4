// The step's metadata: one buffer of u32, written once a step (src/gpu/step-layout.ts has the same numbers).
//
//   header   16 words   counts of the sections, then where each begins
//   rows      4 a row   sequence, position, token, source (0: token is the id; 1: the sequence's slot sampled it last;
//                       2: the row's embedding is given)
//   sequences 8 each    slot, first row, rows, KV length, where its block tables of KV groups 0, 1 and 2 begin (the entry
//                       of a block, less what is behind the group's window), its adapter (0: none; i + 1: that of adapter
//                       slot i)
//   logits   16 each    row, slot, flags, output position, temperature, top k, top p, min p, seed low, seed high,
//                       sample index, top logprobs, where they go, id whose logprob a scored row tells, or ids of a draft up
//                       to the row's own, where the logprobs of its slot's ids go, which mask it has
//   split items 2 each  row, split: one part of 64 keys of a row whose keys are split over threads
//   split rows  2 each  row, its first split item
//   whole rows  1 each  row whose keys one thread walks
//   copies      2 each  KV blocks: from, to; all copies of KV group 0, then those of the next
//   tables              block ids
//
// A kernel that takes it declares `var<storage, read> step: array<u32>` and prepends this file.
// Counts come from here and not from uniforms, so that bind groups and uniforms never change.
const STEP_ROWS = 0u;
const STEP_SEQUENCES = 1u;
const STEP_LOGITS = 2u;
const STEP_SPLIT_ITEMS = 3u;
const STEP_SPLIT_ROWS = 4u;
const STEP_WHOLE_ROWS = 5u;
const STEP_ROWS_AT = 6u;
const STEP_SEQUENCES_AT = 7u;
const STEP_LOGITS_AT = 8u;
const STEP_SPLIT_ITEMS_AT = 9u;
const STEP_SPLIT_ROWS_AT = 10u;
const STEP_WHOLE_ROWS_AT = 11u;
const STEP_COPIES = 12u;
const STEP_COPIES_AT = 13u;

const LOGITS_WRITES_SLOT = 1u;
const LOGITS_SAMPLED = 2u;
const LOGITS_LOGPROB = 4u;
const LOGITS_SCORED = 8u;
const LOGITS_ADJUSTED = 16u;
const LOGITS_ID_LOGPROBS = 32u;
const LOGITS_MASKED = 64u;
const LOGITS_DRAFT = 128u;

const TOKEN_OF_SLOT = 1u;
const TOKEN_EMBEDDED = 2u;

const BLOCK_TOKENS = 16u;

fn stepSequenceAt(row: u32) -> u32 {
  return step[STEP_SEQUENCES_AT] + step[step[STEP_ROWS_AT] + row * 4u] * 8u;
}

// 0: none; i + 1: that of adapter slot i.
fn stepAdapter(row: u32) -> u32 {
  return step[stepSequenceAt(row) + 7u];
}

fn stepPosition(row: u32) -> u32 {
  return step[step[STEP_ROWS_AT] + row * 4u + 1u];
}
