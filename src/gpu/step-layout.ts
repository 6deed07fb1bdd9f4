/** Where the words of a step's metadata lie; shaders/step.wgsl has the same numbers and says what they mean. */
export const STEP_HEADER_WORDS = 16;

export const STEP_HEADER = {
  rows: 0,
  sequences: 1,
  logits: 2,
  splitItems: 3,
  splitRows: 4,
  wholeRows: 5,
  rowsAt: 6,
  sequencesAt: 7,
  logitsAt: 8,
  splitItemsAt: 9,
  splitRowsAt: 10,
  wholeRowsAt: 11,
  copies: 12,
  copiesAt: 13,
} as const;

export const STEP_ROW_WORDS = 4;
export const STEP_SEQUENCE_WORDS = 8;
export const STEP_LOGITS_WORDS = 16;

/** Which word of a sequence has the table of KV group 0; those of the next groups follow. */
export const FIRST_TABLE_WORD = 4;

/** Sources of a row's token. */
export const TOKEN_GIVEN = 0;
export const TOKEN_OF_SLOT = 1;
export const TOKEN_EMBEDDED = 2;

/** Flags of a logits row. */
export const LOGITS_WRITES_SLOT = 1;
export const LOGITS_SAMPLED = 2;
export const LOGITS_LOGPROB = 4;
/** Nothing is drawn: the row tells logprobs of its logits as they are, at temperature 1. */
export const LOGITS_SCORED = 8;
/** The slot's adjustments are made to the row's logits. */
export const LOGITS_ADJUSTED = 16;
/** The row tells the logprobs of its slot's ids. */
export const LOGITS_ID_LOGPROBS = 32;
/** A mask says which ids may be drawn. */
export const LOGITS_MASKED = 64;
/** The row is of a draft: penalties count ids of its sequence's rows, and its slot doesn't count what it draws. */
export const LOGITS_DRAFT = 128;

/** Keys of one split of attention; the same for every form, so that their sums are the same. */
export const SPLIT_KEYS = 64;
