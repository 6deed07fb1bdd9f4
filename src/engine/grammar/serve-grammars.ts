import type { CompiledGrammar, GrammarMatcher } from '@mlc-ai/web-xgrammar';
import type { GrammarState } from '../grammars.ts';
import { ConstraintError } from './constraint-error.ts';
import type { GrammarAnswer, GrammarCommand, GrammarReport, GrammarTask, Vocabulary } from './grammar-messages.ts';
import { Utf8Masks } from './utf8-masks.ts';
import { BrokenLibraryError, XGrammar, type XGrammarLibrary } from './xgrammar.ts';

/** How long answers may wait for those of later tasks, in milliseconds. */
const GATHER_MS = 1;

const NO_MATCH: GrammarAnswer = { ok: false, fault: 'caller', reason: 'a token of the output does not match it' };

/** The inside of a worker that takes commands and tells reports. */
export interface GrammarPort {
  post(report: GrammarReport, transfer: ArrayBuffer[]): void;
  onCommand(take: (command: GrammarCommand) => void): void;
}

/** Compiles and matches on a worker's own thread, until its library breaks. */
export function serveGrammars(port: GrammarPort, load: () => Promise<XGrammarLibrary>): void {
  let server: Promise<GrammarServer> | undefined;
  let last: Promise<void> = Promise.resolve();
  let broken = false;
  const run = async (command: GrammarCommand) => {
    if (broken) return;
    try {
      if (command.type === 'start') {
        const { vocabulary, maxHeapBytes } = command;
        server = load().then((library) => GrammarServer.start(library, vocabulary, maxHeapBytes));
        await server;
        port.post({ type: 'started' }, []);
      } else await (await server!).work(command.tasks, port);
    } catch (error) {
      broken = true;
      const why = error instanceof BrokenLibraryError ? error.why : 'failed';
      port.post({ type: 'broken', why, reason: error instanceof Error ? error.message : String(error) }, []);
    }
  };
  port.onCommand((command) => {
    last = last.then(() => run(command));
  });
}

/** A matcher, and where its output stands in UTF-8. */
interface Matching {
  readonly matcher: GrammarMatcher;
  utf8: number;
}

class GrammarServer {
  readonly #xgrammar: XGrammar;
  readonly #vocabSize: number;
  readonly #utf8: Utf8Masks;
  readonly #grammars = new Map<number, CompiledGrammar>();
  readonly #matchings = new Map<number, Matching>();

  private constructor(xgrammar: XGrammar, { bytes, ends, vocabSize, stopIds }: Vocabulary) {
    this.#xgrammar = xgrammar;
    this.#vocabSize = vocabSize;
    this.#utf8 = new Utf8Masks(bytes, ends, vocabSize, stopIds);
  }

  static async start(library: XGrammarLibrary, vocabulary: Vocabulary, maxHeapBytes: number): Promise<GrammarServer> {
    return new GrammarServer(await XGrammar.start(library, vocabulary, maxHeapBytes), vocabulary);
  }

  /** Answers a batch in few reports. Throws BrokenLibraryError, having told what was done before. */
  async work(tasks: readonly GrammarTask[], port: GrammarPort): Promise<void> {
    let answers: GrammarAnswer[] = [];
    let since = performance.now();
    const tell = () => {
      if (answers.length === 0) return;
      const transfer = answers.flatMap((answer) =>
        answer.ok
          ? [answer, ...(answer.states ?? [])].flatMap(({ mask }) => (mask ? [mask.buffer as ArrayBuffer] : []))
          : [],
      );
      port.post({ type: 'done', answers, heapBytes: this.#xgrammar.heapBytes }, transfer);
      answers = [];
      since = performance.now();
    };
    try {
      for (const task of tasks) {
        // What may take long is told apart from what was done before it, so that it is known for the one that does.
        if (task.op === 'compile' || task.op === 'open' || performance.now() - since > GATHER_MS) tell();
        const answer = await this.#do(task);
        if (answer !== undefined) answers.push(answer);
      }
    } finally {
      tell();
    }
  }

  async #do(task: GrammarTask): Promise<GrammarAnswer | undefined> {
    switch (task.op) {
      case 'compile':
        return this.#compile(task);
      case 'open':
        return this.#open(task);
      case 'accept': {
        const matching = this.#matchings.get(task.matcher);
        if (matching === undefined) return { ok: false, fault: 'caller', reason: 'no such matcher' };
        for (const id of task.ids) if (!(await this.#accept(matching, id))) return NO_MATCH;
        return this.#state(matching);
      }
      case 'look': {
        const matching = this.#matchings.get(task.matcher);
        if (matching === undefined) return { ok: false, fault: 'caller', reason: 'no such matcher' };
        return { ok: true, mask: undefined, finished: false, states: await this.#look(matching, task.ids) };
      }
      case 'close':
        this.#matchings.get(task.matcher)?.matcher.dispose();
        this.#matchings.delete(task.matcher);
        return undefined;
      case 'drop':
        this.#grammars.get(task.grammar)?.dispose();
        this.#grammars.delete(task.grammar);
        return undefined;
    }
  }

  async #compile({ grammar, constraint }: GrammarTask & { op: 'compile' }): Promise<GrammarAnswer> {
    try {
      this.#grammars.set(grammar, await this.#xgrammar.compile(constraint));
    } catch (error) {
      if (error instanceof ConstraintError) return { ok: false, fault: 'constraint', reason: error.message };
      throw error;
    }
    return { ok: true, mask: undefined, finished: false };
  }

  async #open({ matcher: number, grammar, ids }: GrammarTask & { op: 'open' }): Promise<GrammarAnswer> {
    const compiled = this.#grammars.get(grammar);
    if (compiled === undefined) return { ok: false, fault: 'caller', reason: 'no such grammar' };
    const matching = { matcher: await this.#xgrammar.open(compiled), utf8: this.#utf8.start };
    this.#matchings.set(number, matching);
    let answer: GrammarAnswer | undefined;
    for (const id of ids) if (!(await this.#accept(matching, id))) answer = NO_MATCH;
    answer ??= await this.#state(matching);
    if (!answer.ok) {
      this.#matchings.delete(number);
      matching.matcher.dispose();
    }
    return answer;
  }

  async #accept(matching: Matching, id: number): Promise<boolean> {
    if (matching.matcher.isTerminated() || !(await this.#xgrammar.accept(matching.matcher, id))) return false;
    matching.utf8 = this.#utf8.after(matching.utf8, id);
    return true;
  }

  /** The states after each of `ids`, as far as they can come and something can follow; the matcher stays where it is. */
  async #look(matching: Matching, ids: readonly number[]): Promise<GrammarState[]> {
    const states: GrammarState[] = [];
    const { utf8 } = matching;
    let taken = 0;
    for (const id of ids) {
      const mask = states.at(-1)?.mask;
      if (mask && !((mask[id >>> 5]! >>> (id & 31)) & 1)) break;
      if (!(await this.#accept(matching, id))) break;
      taken++;
      const state = await this.#state(matching);
      if (!state.ok || state.finished) break;
      states.push({ mask: state.mask, finished: false });
    }
    if (taken > 0) await this.#xgrammar.rollBack(matching.matcher, taken);
    matching.utf8 = utf8;
    return states;
  }

  async #state({ matcher, utf8 }: Matching): Promise<GrammarAnswer> {
    if (matcher.isTerminated()) return { ok: true, mask: undefined, finished: true };
    const words = await this.#xgrammar.mask(matcher);
    const mask = new Uint32Array(words.buffer, words.byteOffset, words.length);
    this.#utf8.apply(utf8, mask);
    const allowed = countBits(mask);
    if (allowed === 0) return { ok: false, fault: 'constraint', reason: 'no token of this model can follow' };
    return { ok: true, mask: allowed === this.#vocabSize ? undefined : mask, finished: false };
  }
}

function countBits(words: Uint32Array): number {
  let count = 0;
  for (let word of words) {
    word -= (word >>> 1) & 0x55555555;
    word = (word & 0x33333333) + ((word >>> 2) & 0x33333333);
    count += (((word + (word >>> 4)) & 0x0f0f0f0f) * 0x01010101) >>> 24;
  }
  return count;
}
