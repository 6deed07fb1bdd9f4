// A place of a list of entries where there is none, and the segment of an entry that has none (src/gpu/segment-entries.ts).
const NO_ENTRY = 0xffffffffu;
