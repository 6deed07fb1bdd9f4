/** Sizes and places of the sampler's state; shaders/sampler-state.wgsl has the same numbers and says what they mean. */
/** An id's strand is floor(id / 4) modulo this; a draw over the whole row goes strand by strand. */
export const STRANDS = 64;
/** A chunk has the ids of one strand in one region. */
export const REGION_IDS = 16_384;
export const CHUNK_STATE = 4;
/** Tokens that may be in a row's head. */
export const HEAD_LIST = 256;
/** Ids of one list. */
export const LIST = 4096;
export const LISTS = 3;
export const BUCKETS = 256;
export const ROW_STATE = 1232;
/** Where a row's state has its strands' best logits. */
export const ROW_STRANDS = 16;
/** From here on, a row's draws are weighed together. */
export const LAST_ROUNDS = 2;
export const JOB_STATE = 544;

export const PICK_STATE = 8;
/** Scratch of one job's search: counts and weights of digits, and of buckets; then lists. */
export const SEARCH_STATE = 5 * 256 + LISTS * (1 + LIST);

/** Words of a job and of its pick that tell what a row kept. */
export const JOB_TASK = 0;
export const JOB_WHOLE = 2;
export const JOB_FLOOR = 8;
export const PICK = { cutKey: 0, cutId: 1, keptCount: 2, keptMass: 3 } as const;

/** A vocabulary up to here is searched by one workgroup a row; at most LIST. */
export const SMALL_VOCABULARY = 4096;
