import type * as Library from '@mlc-ai/web-xgrammar';
import type { Constraint } from '../request.ts';
import { withoutMerging } from './exact-automata.ts';
import type { Vocabulary } from './grammar-messages.ts';
import { grammarSource } from './grammar-source.ts';

export type XGrammarLibrary = Pick<typeof Library, 'Grammar' | 'GrammarCompiler' | 'GrammarMatcher' | 'TokenizerInfo'>;

/**
 * Lowest part of the library's 64 KiB stack, in @mlc-ai/web-xgrammar 0.1.27: below it lies static data, and nothing
 * stops a deep recursion from writing there. It stays zero while the stack is never nearly full.
 */
const STACK_GUARD = { at: 70_976, words: 1_024 };
const PAGE_BYTES = 65_536;

interface Memory {
  readonly buffer: ArrayBuffer;
  grow(pages: number): number;
}
type Instantiate = (bytes: unknown, imports: unknown) => Promise<{ instance: { exports: Record<string, unknown> } }>;
// Not every type check that reaches this file knows of WebAssembly.
declare const WebAssembly: {
  instantiate: Instantiate;
  readonly Memory: { new (): Memory; readonly prototype: Memory };
};

/** The library ended itself, or may not be trusted any more. */
export class BrokenLibraryError extends Error {
  override readonly name = 'BrokenLibraryError';
  readonly why: 'refused' | 'memory' | 'nesting' | 'failed';

  constructor(why: BrokenLibraryError['why'], message: string) {
    super(message);
    this.why = why;
  }
}

/**
 * The library with its one WebAssembly instance, which only a new worker replaces: it has no exceptions to catch, so
 * that each refusal aborts it in mid-flight. Takes the console of its worker, where the library writes its reasons.
 */
export class XGrammar {
  readonly #library: XGrammarLibrary;
  readonly #memory: Memory;
  readonly #compiler: Library.GrammarCompiler;
  readonly #endless: boolean;
  readonly #guard: LibraryGuard;

  private constructor(
    library: XGrammarLibrary,
    guard: LibraryGuard,
    compiler: Library.GrammarCompiler,
    endless: boolean,
  ) {
    this.#library = library;
    this.#guard = guard;
    this.#memory = guard.memory;
    this.#compiler = compiler;
    this.#endless = endless;
  }

  static async start(library: XGrammarLibrary, vocabulary: Vocabulary, maxHeapBytes: number): Promise<XGrammar> {
    const guard = new LibraryGuard(maxHeapBytes);
    const { bytes, ends, vocabSize, stopIds } = vocabulary;
    // Byte arrays pass where strings are declared, and are not taken for UTF-16.
    const texts = Array.from(ends, (end, id) => bytes.subarray(ends[id - 1] ?? 0, end)) as unknown as string[];
    const compiler = await guard.run(async () => {
      const info = await library.TokenizerInfo.createTokenizerInfo(texts, 'raw', false, vocabSize, [...stopIds]);
      return library.GrammarCompiler.createGrammarCompiler(info, false);
    });
    return new XGrammar(library, guard, compiler, stopIds.length === 0);
  }

  get heapBytes(): number {
    return this.#memory.buffer.byteLength;
  }

  /** Throws ConstraintError, where nothing is harmed, or BrokenLibraryError. */
  compile(constraint: Constraint): Promise<Library.CompiledGrammar> {
    const source = grammarSource(constraint);
    return this.#guard.run(async () => {
      if (source.form === 'structural-tag') return this.#compiler.compileStructuralTag(source.text);
      const grammar = await this.#library.Grammar.fromEBNF(source.text);
      const compiled = await this.#compiler.compileGrammar(grammar);
      grammar.dispose();
      return compiled;
    });
  }

  /** A matcher; without stop ids it is finished as soon as the grammar is. */
  open(grammar: Library.CompiledGrammar): Promise<Library.GrammarMatcher> {
    return this.#guard.run(() => this.#library.GrammarMatcher.createGrammarMatcher(grammar, undefined, this.#endless));
  }

  /** Whether the matcher takes the id. */
  accept(matcher: Library.GrammarMatcher, id: number): Promise<boolean> {
    return this.#guard.run(async () => matcher.acceptToken(id));
  }

  /** Takes the last `count` ids back. */
  rollBack(matcher: Library.GrammarMatcher, count: number): Promise<void> {
    return this.#guard.run(async () => matcher.rollBack(count));
  }

  /** A bit per id. */
  mask(matcher: Library.GrammarMatcher): Promise<Int32Array> {
    return this.#guard.run(() => matcher.getNextTokenBitmask());
  }
}

/** Watches the library's memory, its stack, and what it says before it ends itself. */
class LibraryGuard {
  #memory: Memory | undefined;
  #overfull = false;
  #said: string[] = [];
  readonly #maxHeapBytes: number;

  constructor(maxHeapBytes: number) {
    this.#maxHeapBytes = maxHeapBytes;
    // The library's build names neither its memory nor its errors: both pass here.
    const instantiate = WebAssembly.instantiate.bind(WebAssembly);
    WebAssembly.instantiate = async (bytes, imports) => {
      const source = await instantiate(withoutMerging(bytesOf(bytes)), imports);
      const memory = Object.values(source.instance.exports).find((value) => value instanceof WebAssembly.Memory);
      this.#memory = memory as Memory;
      return source;
    };
    const grow = WebAssembly.Memory.prototype.grow;
    const guard = this;
    WebAssembly.Memory.prototype.grow = function (this: Memory, pages: number) {
      if (this.buffer.byteLength + pages * PAGE_BYTES > guard.#maxHeapBytes) {
        guard.#overfull = true;
        throw new RangeError('over the bound');
      }
      return grow.call(this, pages);
    };
    console.error = (line: unknown) => {
      if (this.#said.length < 8) this.#said.push(String(line).slice(0, 1_000));
    };
    console.log = console.error;
    console.warn = console.error;
  }

  get memory(): Memory {
    if (this.#memory === undefined) throw new BrokenLibraryError('failed', 'the library made no instance');
    return this.#memory;
  }

  /** What `act` brings; all that it throws is a BrokenLibraryError. */
  async run<T>(act: () => Promise<T>): Promise<T> {
    this.#said = [];
    let result: T;
    try {
      result = await act();
    } catch (error) {
      if (this.#overfull) throw new BrokenLibraryError('memory', 'too much memory');
      if (!this.#stackIsWhole() || error instanceof RangeError) throw new BrokenLibraryError('nesting', 'too deep');
      const reason = this.#reason(error);
      if (reason !== undefined) throw new BrokenLibraryError('refused', reason);
      throw new BrokenLibraryError('failed', error instanceof Error ? error.message : 'the library failed');
    }
    // A failed growth may have been survived, but nothing tells by what.
    if (this.#overfull) throw new BrokenLibraryError('memory', 'too much memory');
    if (!this.#stackIsWhole()) throw new BrokenLibraryError('nesting', 'too deep');
    return result;
  }

  #stackIsWhole(): boolean {
    const words = new Uint32Array(this.memory.buffer, STACK_GUARD.at, STACK_GUARD.words);
    let used = 0;
    for (let i = 0; i < words.length; i++) used |= words[i]!;
    return used === 0;
  }

  /** Why the library refused: what it wrote before it aborted, or the text of what it threw. */
  #reason(error: unknown): string | undefined {
    const fatal = this.#said.find((line) => line.startsWith('[FATAL]'));
    if (fatal !== undefined) {
      return withoutDump(fatal.replace(/^\[FATAL\] [^ ]*:\d+: /, '').replace(/^Check failed: \(.*?\) is false: /, ''));
    }
    return typeof error === 'number' ? this.#thrownText(error) : undefined;
  }

  /** A C++ exception comes as its address. One of std::runtime_error's kind has its text behind the second word. */
  #thrownText(address: number): string | undefined {
    const heap = new DataView(this.memory.buffer);
    const text = (at: number) => {
      const bytes = new Uint8Array(heap.buffer, at, Math.min(1_000, heap.byteLength - at));
      const end = bytes.indexOf(0);
      return new TextDecoder().decode(bytes.slice(0, end < 0 ? undefined : end));
    };
    try {
      const type = heap.getUint32(address - 20, true);
      const name = text(heap.getUint32(type + 4, true));
      if (!/^N8xgrammar\d+\w+ErrorE$|^St13runtime_error$/.test(name)) return undefined;
      return withoutDump(text(heap.getUint32(address + 4, true)));
    } catch {
      return undefined;
    }
  }
}

/** The library's reasons may end in the whole of what it was given. */
function withoutDump(reason: string): string {
  const [first = ''] = reason.split(/\n|[.,]? The JSON string is:| in \{|: \{|, but got /);
  return first.length > 200 ? `${first.slice(0, 200)}…` : first;
}

function bytesOf(code: unknown): Uint8Array {
  if (code instanceof ArrayBuffer) return new Uint8Array(code);
  if (ArrayBuffer.isView(code)) return new Uint8Array(code.buffer, code.byteOffset, code.byteLength);
  throw new Error('the grammar library brings its code in a form that is not known');
}
