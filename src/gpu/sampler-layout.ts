/** Sizes and places of the sampler's state; shaders/sampler-state.wgsl has the same numbers and says what they mean. */
export const CHUNK_IDS = 512;
export const CHUNK_STATE = 4;
/** Ids that one workgroup looks through. */
export const SPAN_IDS = 16 * CHUNK_IDS;
/** Ids of one list. */
export const LIST = 4096;
export const LISTS = 3;
export const BUCKETS = 256;
export const ROW_STATE = 272;
export const JOB_STATE = 544;

export const PICK_STATE = 8;
/** Scratch of one job's search: counts and weights of digits, and of the buckets of a small vocabulary. */
export const DIGITS_STATE = 5 * 256;

/** Words of a job and of its pick that tell what a row kept. */
export const JOB_FLOOR = 8;
export const PICK = { cutKey: 0, cutId: 1, keptCount: 2, keptMass: 3 } as const;

/** A vocabulary up to here is searched by one workgroup a row; at most LIST. */
export const SMALL_VOCABULARY = 4096;
