import type { GrammarState } from '../grammars.ts';
import type { Constraint } from '../request.ts';

/** What a grammar worker is told. Its first message is 'start'; the rest is work, done in order. */
export type GrammarCommand =
  | { readonly type: 'start'; readonly vocabulary: Vocabulary; readonly maxHeapBytes: number }
  | { readonly type: 'work'; readonly tasks: readonly GrammarTask[] };

/** The texts of a tokenizer's ids, as the worker needs them. */
export interface Vocabulary {
  /** Ids' bytes, one after the other; none for an id that no constrained output may hold. */
  readonly bytes: Uint8Array;
  /** End of each id's bytes. */
  readonly ends: Uint32Array;
  /** Logits of one position, at least `ends.length`. */
  readonly vocabSize: number;
  /** Ids that end an output. */
  readonly stopIds: readonly number[];
}

/** Grammars and matchers have numbers that the caller gives. Every task but 'close' and 'drop' is answered. */
export type GrammarTask =
  | { readonly op: 'compile'; readonly grammar: number; readonly constraint: Constraint }
  | { readonly op: 'open'; readonly matcher: number; readonly grammar: number; readonly ids: readonly number[] }
  | { readonly op: 'accept'; readonly matcher: number; readonly ids: readonly number[] }
  | { readonly op: 'look'; readonly matcher: number; readonly ids: readonly number[] }
  | { readonly op: 'close'; readonly matcher: number }
  | { readonly op: 'drop'; readonly grammar: number };

/** What a grammar worker tells. */
export type GrammarReport =
  | { readonly type: 'started' }
  | { readonly type: 'done'; readonly answers: readonly GrammarAnswer[]; readonly heapBytes: number }
  /** It can't go on: the task at hand, if one was, ended its library. Nothing follows. */
  | { readonly type: 'broken'; readonly why: 'refused' | 'memory' | 'nesting' | 'failed'; readonly reason: string };

/** Answers come in the order of the tasks. */
export type GrammarAnswer =
  | {
      readonly ok: true;
      readonly mask: Uint32Array | undefined;
      readonly finished: boolean;
      /** Of 'look': after each id. */
      readonly states?: readonly GrammarState[];
    }
  /** Refused without harm to the rest: the constraint is wrong, or what was asked of it. */
  | { readonly ok: false; readonly fault: 'constraint' | 'caller'; readonly reason: string };

/** A worker, wherever it runs. */
export interface GrammarWorker {
  post(command: GrammarCommand): void;
  terminate(): void;
}

/** Starts a worker that runs `serveGrammars`. */
export type StartGrammarWorker = (
  onReport: (report: GrammarReport) => void,
  onFailed: (reason: string) => void,
) => GrammarWorker;
