/** Sizes and places of the sampler's state; shaders/sampler-state.wgsl has the same numbers and says what they mean. */
export const CHUNK_IDS = 512;
export const CHUNK_STATE = 4;
/** Ids that one workgroup looks through. */
export const SPAN_IDS = 16 * CHUNK_IDS;
/** Ids of one list. */
export const LIST = 4096;
export const LISTS = 3;
export const BUCKETS = 256;
export const ROW_STATE = 16;
export const JOB_STATE = 320;

/** Words of a job that tell what a row kept. */
export const JOB = { cutKey: 10, cutId: 11, keptCount: 13, keptMass: 14 } as const;

/** A vocabulary up to here is searched as a whole; a larger one has buckets first. */
export const SMALL_VOCABULARY = 4096;
