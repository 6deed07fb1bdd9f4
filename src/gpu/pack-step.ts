import type { AttentionWork } from './attention.ts';
import {
  FIRST_TABLE_WORD,
  LOGITS_ADJUSTED,
  LOGITS_DRAFT,
  LOGITS_ID_LOGPROBS,
  LOGITS_LOGPROB,
  LOGITS_MASKED,
  LOGITS_SAMPLED,
  LOGITS_SCORED,
  LOGITS_WRITES_SLOT,
  SPLIT_KEYS,
  STEP_HEADER,
  STEP_HEADER_WORDS,
  STEP_LOGITS_WORDS,
  STEP_ROW_WORDS,
  STEP_SEQUENCE_WORDS,
  TOKEN_EMBEDDED,
  TOKEN_GIVEN,
  TOKEN_OF_SLOT,
} from './step-layout.ts';
import { BLOCK_TOKENS, firstVisibleBlock } from './visible-blocks.ts';

/** Rows of a sequence in one step that may take attention's split form: more of them fill the device by themselves. */
const MOST_SPLIT_ROWS = 4;

/** One KV group, which sees all keys. */
const ALL_SEEN: readonly (number | undefined)[] = [undefined];

/** A sequence's rows: consecutive positions. */
export interface SequenceEntry {
  readonly slot: number;
  readonly tokens: ArrayLike<number> | 'slot';
  /** The rows' embeddings are given: `tokens` only counts them. */
  readonly embedded?: boolean;
  readonly startPosition: number;
  readonly blockTable: ArrayLike<number>;
  /** Of KV groups 1 … */
  readonly moreTables?: readonly ArrayLike<number>[];
  /** The adapter slot whose adapter its rows have; absent: none. Packed as one more, 0 for none. */
  readonly adapter?: number;
}

/** A row whose logits are wanted, as the kernels see it. */
export interface LogitsEntry {
  readonly row: number;
  readonly slot: number;
  /** The slot keeps this row's id. */
  readonly writesSlot: boolean;
  /** Drawn at `temperature`; else greedy. */
  readonly sampled: boolean;
  readonly logprob: boolean;
  readonly outputPosition: number;
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly seed: bigint;
  readonly sampleIndex: number;
  readonly top: number;
  /** Where its top logprobs begin in the step's. */
  readonly topAt: number;
  /** Nothing is drawn: the id whose logprob the row tells. */
  readonly scored?: number | undefined;
  /** It is of a draft: so many ids of its sequence's rows, its own the last, are guesses. */
  readonly draft?: number | undefined;
  /** Its slot's adjustments apply. */
  readonly adjusted?: boolean;
  /** Tells the logprobs of its slot's ids, which begin at `idsAt` in the step's. */
  readonly idLogprobs?: boolean;
  readonly idsAt?: number;
  /** Which of the masks it has; it is drawn in a submit of its own then, and comes after all rows that have none. */
  readonly mask?: number | undefined;
}

/** A KV block's content goes into another. */
export interface CopyEntry {
  readonly from: number;
  readonly to: number;
  /** Of KV groups 1 … */
  readonly more?: readonly { readonly from: number; readonly to: number }[];
}

/** What a step has beside its rows. */
export interface StepExtras {
  readonly copies: readonly CopyEntry[];
  /** Decode steps that the metadata is advanced through. */
  readonly repeat: number;
  /** Of each KV group: keys a row sees, undefined: all; default: one group that sees all. */
  readonly windows?: readonly (number | undefined)[];
}

export interface StepCapacity {
  readonly maxRows: number;
  readonly maxSequences: number;
  readonly maxLogitsRows: number;
  /** Copies of blocks: a sequence that starts may need one. */
  readonly maxCopies: number;
  /** Blocks of one sequence's tables, of all KV groups. */
  readonly maxTableBlocks: number;
  /** Default: one. */
  readonly kvGroups?: number;
  /** Splits that attention's scratch holds. */
  readonly splitItems: number;
}

/** Words that a step of this capacity may take. */
export function stepWords(capacity: StepCapacity): number {
  return (
    STEP_HEADER_WORDS +
    // A row is in the list of whole rows, or in that of split rows with its first item.
    capacity.maxRows * (STEP_ROW_WORDS + 2) +
    capacity.maxSequences * (STEP_SEQUENCE_WORDS + capacity.maxTableBlocks) +
    capacity.maxLogitsRows * STEP_LOGITS_WORDS +
    capacity.maxCopies * 2 * (capacity.kvGroups ?? 1) +
    capacity.splitItems * 2
  );
}

export interface PackedStep {
  readonly words: Uint32Array<ArrayBuffer>;
  readonly rows: number;
  readonly work: AttentionWork;
}

/**
 * Lays a step out in `into` (at least stepWords) as shaders/step.wgsl wants it.
 * Few rows with several splits of keys take attention's split form while its scratch lasts; the sums are the same.
 */
export function packStep(
  into: Uint32Array<ArrayBuffer>,
  sequences: readonly SequenceEntry[],
  logits: readonly LogitsEntry[],
  splitItemCapacity: number,
  { copies, repeat, windows = ALL_SEEN }: StepExtras = { copies: [], repeat: 1 },
): PackedStep {
  const rows = sequences.reduce((sum, sequence) => sum + rowsOf(sequence), 0);
  const whole: number[] = [];
  const splitRows: number[] = [];
  const splitItems: number[] = [];
  let row = 0;
  for (const sequence of sequences) {
    const count = rowsOf(sequence);
    // From the first that any group's layers see, to those that the last row comes to have while it is advanced; a
    // layer passes over those that it sees nothing of, so that its sum is that of the whole form.
    const first = firstSplit(windows, sequence.startPosition);
    const end = Math.ceil((sequence.startPosition + count - 1 + repeat) / SPLIT_KEYS);
    const splits = end - first;
    if (count <= MOST_SPLIT_ROWS && splits > 1 && splitItems.length / 2 + count * splits <= splitItemCapacity) {
      for (let i = 0; i < count; i++) {
        splitRows.push(row + i, splitItems.length / 2);
        for (let split = first; split < end; split++) splitItems.push(row + i, split);
      }
    } else {
      for (let i = 0; i < count; i++) whole.push(row + i);
    }
    row += count;
  }

  const rowsAt = STEP_HEADER_WORDS;
  const sequencesAt = rowsAt + rows * STEP_ROW_WORDS;
  const logitsAt = sequencesAt + sequences.length * STEP_SEQUENCE_WORDS;
  const splitItemsAt = logitsAt + logits.length * STEP_LOGITS_WORDS;
  const splitRowsAt = splitItemsAt + splitItems.length;
  const wholeRowsAt = splitRowsAt + splitRows.length;
  const copiesAt = wholeRowsAt + whole.length;
  const tablesAt = copiesAt + copies.length * 2 * windows.length;
  into.fill(0, 0, STEP_HEADER_WORDS);
  into[STEP_HEADER.rows] = rows;
  into[STEP_HEADER.sequences] = sequences.length;
  into[STEP_HEADER.logits] = logits.length;
  into[STEP_HEADER.splitItems] = splitItems.length / 2;
  into[STEP_HEADER.splitRows] = splitRows.length / 2;
  into[STEP_HEADER.wholeRows] = whole.length;
  into[STEP_HEADER.rowsAt] = rowsAt;
  into[STEP_HEADER.sequencesAt] = sequencesAt;
  into[STEP_HEADER.logitsAt] = logitsAt;
  into[STEP_HEADER.splitItemsAt] = splitItemsAt;
  into[STEP_HEADER.splitRowsAt] = splitRowsAt;
  into[STEP_HEADER.wholeRowsAt] = wholeRowsAt;
  into[STEP_HEADER.copies] = copies.length;
  into[STEP_HEADER.copiesAt] = copiesAt;
  const end = packSequences(into, sequences, { rowsAt, sequencesAt, tablesAt, repeat, windows });
  packLogits(into, logits, logitsAt);
  into.set(splitItems, splitItemsAt);
  into.set(splitRows, splitRowsAt);
  into.set(whole, wholeRowsAt);
  packCopies(into, copies, windows.length, copiesAt);
  return {
    words: into.subarray(0, end),
    rows,
    work: { wholeRows: whole.length, splitRows: splitRows.length / 2, splitItems: splitItems.length / 2 },
  };
}

/** The first split of keys that the row at `position` sees in any KV group. */
function firstSplit(windows: readonly (number | undefined)[], position: number): number {
  let first = Number.POSITIVE_INFINITY;
  for (const window of windows) {
    if (window === undefined) return 0;
    first = Math.min(first, Math.floor(Math.max(0, position + 1 - window) / SPLIT_KEYS));
  }
  return first;
}

/** Writes the copies group by group, so that a group's kernel finds its own in a row. */
function packCopies(into: Uint32Array, copies: readonly CopyEntry[], groups: number, copiesAt: number): void {
  copies.forEach((copy, i) => {
    for (let group = 0; group < groups; group++) {
      const { from, to } = group === 0 ? copy : copy.more![group - 1]!;
      const at = copiesAt + (group * copies.length + i) * 2;
      into[at] = from;
      into[at + 1] = to;
    }
  });
}

interface SequencesPlace {
  readonly rowsAt: number;
  readonly sequencesAt: number;
  readonly tablesAt: number;
  readonly repeat: number;
  readonly windows: readonly (number | undefined)[];
}

/** Writes rows, sequences and tables; returns where the tables end. */
function packSequences(into: Uint32Array, sequences: readonly SequenceEntry[], place: SequencesPlace): number {
  const { rowsAt, sequencesAt, tablesAt, repeat, windows } = place;
  let row = 0;
  let table = tablesAt;
  sequences.forEach((sequence, index) => {
    const { tokens, embedded } = sequence;
    const count = rowsOf(sequence);
    const length = sequence.startPosition + count;
    const source = tokens === 'slot' ? TOKEN_OF_SLOT : embedded ? TOKEN_EMBEDDED : TOKEN_GIVEN;
    into.set(
      [sequence.slot, row, count, length, 0, 0, 0, (sequence.adapter ?? -1) + 1],
      sequencesAt + index * STEP_SEQUENCE_WORDS,
    );
    for (let i = 0; i < count; i++) {
      const rowAt = rowsAt + (row + i) * STEP_ROW_WORDS;
      into[rowAt] = index;
      into[rowAt + 1] = sequence.startPosition + i;
      into[rowAt + 2] = tokens === 'slot' || embedded ? 0 : tokens[i]!;
      into[rowAt + 3] = source;
    }
    row += count;
    const blocks = Math.ceil((length + repeat - 1) / BLOCK_TOKENS);
    for (let group = 0; group < windows.length; group++) {
      const blockTable = group === 0 ? sequence.blockTable : sequence.moreTables![group - 1]!;
      // What is behind the window is left out: the table begins as far before its first entry, modulo 2^32.
      const first = firstVisibleBlock(windows[group], sequence.startPosition);
      into[sequencesAt + index * STEP_SEQUENCE_WORDS + FIRST_TABLE_WORD + group] = table - first;
      for (let i = first; i < blocks; i++) into[table++] = blockTable[i]!;
    }
  });
  return table;
}

function packLogits(into: Uint32Array<ArrayBuffer>, logits: readonly LogitsEntry[], logitsAt: number): void {
  const floats = new Float32Array(into.buffer, into.byteOffset, into.length);
  logits.forEach((entry, index) => {
    const at = logitsAt + index * STEP_LOGITS_WORDS;
    into[at] = entry.row;
    into[at + 1] = entry.slot;
    into[at + 2] =
      (entry.writesSlot ? LOGITS_WRITES_SLOT : 0) |
      (entry.sampled ? LOGITS_SAMPLED : 0) |
      (entry.logprob ? LOGITS_LOGPROB : 0) |
      (entry.scored === undefined ? 0 : LOGITS_SCORED) |
      (entry.adjusted ? LOGITS_ADJUSTED : 0) |
      (entry.idLogprobs ? LOGITS_ID_LOGPROBS : 0) |
      (entry.mask === undefined ? 0 : LOGITS_MASKED) |
      (entry.draft === undefined ? 0 : LOGITS_DRAFT);
    into[at + 3] = entry.outputPosition;
    floats[at + 4] = entry.temperature;
    into[at + 5] = entry.topK;
    floats[at + 6] = entry.topP;
    floats[at + 7] = entry.minP;
    into[at + 8] = Number(entry.seed & 0xffffffffn);
    into[at + 9] = Number((entry.seed >> 32n) & 0xffffffffn);
    into[at + 10] = entry.sampleIndex;
    into[at + 11] = entry.top;
    into[at + 12] = entry.topAt;
    into[at + 13] = entry.scored ?? entry.draft ?? 0;
    into[at + 14] = entry.idsAt ?? 0;
    into[at + 15] = entry.mask ?? 0;
  });
}

function rowsOf(sequence: SequenceEntry): number {
  return sequence.tokens === 'slot' ? 1 : sequence.tokens.length;
}
