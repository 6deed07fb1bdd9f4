import { Code } from '@connectrpc/connect';
import type { Logger } from 'pino';
import { ContractError } from '../../contract/contract-error.ts';
import type { EmbedInput } from '../../contract/normalised-request.ts';
import type { CurrentModel } from './current-model.ts';
import { TokenizerThread } from './tokenizer-thread.ts';
import type { TokenizerAnswer } from './tokenizer-worker.ts';

export interface EncoderBounds {
  /** Texts that wait; of more, requests are refused. A request has one here at a time, and holds 128 KiB of them at most. */
  readonly mostWaiting: number;
  /** Milliseconds that a text may wait for those before it, and a thread take to read the tokenizer's files. */
  readonly waitMs: number;
  /** Milliseconds that one may take: of the worst tokenizer's worst text some 200. */
  readonly encodeMs: number;
  /** Of the thread; vocabularies of 250,000 words take a few hundred. */
  readonly heapMib: number;
}

const BOUNDS: EncoderBounds = { mostWaiting: 512, waitMs: 30_000, encodeMs: 5_000, heapMib: 2_048 };

/** A text that waits, or is encoded now. */
interface Asked {
  readonly text: string;
  readonly pair: string | undefined;
  settled: boolean;
  settle(result: EmbedInput | Error): void;
}

/**
 * Makes ids of the texts that requests bring, in a thread of its own that starts with the first: one at a time, in the order they
 * come. A thread that is lost, or takes too long, fails the text that it had, and another goes on with those that wait.
 */
export class TextEncoder {
  private readonly served: Pick<CurrentModel, 'now'>;
  private readonly log: Logger;
  private readonly bounds: EncoderBounds;
  private readonly entry: URL | undefined;
  private readonly waiting = new Set<Asked>();
  private thread: TokenizerThread | undefined;
  /** Whose tokenizer the thread has. */
  private model: CurrentModel['now'] | undefined;
  /** The thread has its tokenizer. */
  private ready = false;
  /** Of a thread that starts. */
  private starting: NodeJS.Timeout | undefined;
  private current: { readonly asked: Asked; readonly timer: NodeJS.Timeout } | undefined;
  private closed = false;

  /** `entry`: what the thread runs in the tokenizer's place. */
  constructor(
    served: Pick<CurrentModel, 'now'>,
    log: Logger,
    { entry, ...bounds }: Partial<EncoderBounds> & { readonly entry?: URL } = {},
  ) {
    this.served = served;
    this.log = log;
    this.bounds = { ...BOUNDS, ...bounds };
    this.entry = entry;
  }

  /**
   * The ids of a text, or a pair, special tokens included. Rejects with `signal`'s reason; with ContractError:
   * RESOURCE_EXHAUSTED where too many wait, DEADLINE_EXCEEDED where it takes too long, UNAVAILABLE where the relay closes;
   * with another error where the tokenizer fails.
   */
  async encode(text: string, pair: string | undefined, signal: AbortSignal): Promise<EmbedInput> {
    signal.throwIfAborted();
    if (this.closed) throw closing();
    const { mostWaiting, waitMs } = this.bounds;
    if (this.waiting.size >= mostWaiting) {
      throw new ContractError(Code.ResourceExhausted, `${mostWaiting} texts wait for the tokenizer already.`);
    }
    let drop: (() => void) | undefined;
    let timer: NodeJS.Timeout | undefined;
    try {
      return await new Promise<EmbedInput>((resolve, reject) => {
        const asked: Asked = {
          ...{ text, pair, settled: false },
          settle: (result) => {
            asked.settled = true;
            this.waiting.delete(asked);
            if (result instanceof Error) reject(result);
            else resolve(result);
          },
        };
        drop = () => asked.settle(signal.reason);
        signal.addEventListener('abort', drop, { once: true });
        timer = setTimeout(() => {
          if (this.waiting.has(asked)) asked.settle(late('The texts waited too long for the tokenizer.'));
        }, waitMs);
        this.waiting.add(asked);
        this.next();
      });
    } finally {
      clearTimeout(timer);
      if (drop) signal.removeEventListener('abort', drop);
    }
  }

  /** Ends what waits, and the thread. */
  close(): void {
    this.closed = true;
    this.drop(closing());
  }

  private next(): void {
    if (this.current || this.waiting.size === 0) return;
    if (this.model !== this.served.now) this.end();
    this.thread ??= this.start();
    if (!this.ready) return;
    const [asked] = this.waiting;
    this.waiting.delete(asked!);
    const timer = setTimeout(() => this.tooLong(), this.bounds.encodeMs);
    this.current = { asked: asked!, timer };
    this.thread.post({ text: asked!.text, pair: asked!.pair });
  }

  private start(): TokenizerThread {
    this.model = this.served.now;
    this.starting = setTimeout(() => this.startsTooLong(), this.bounds.waitMs);
    const { folder, vectors } = this.model;
    return new TokenizerThread(
      // Of one type, all are 0, whatever the tokenizer says.
      { folder, types: (vectors?.tokenTypes ?? 1) > 1 },
      { onAnswer: (answer) => this.take(answer), onLost: (why) => this.lost(why) },
      this.bounds.heapMib,
      this.entry,
    );
  }

  private take(answer: TokenizerAnswer): void {
    if (answer.case === 'unreadable') {
      // The next request may fare better.
      this.drop(new Error(answer.message));
      return;
    }
    if (answer.case === 'ready') {
      this.ready = true;
      clearTimeout(this.starting);
    } else this.done(answer.case === 'failed' ? fault(answer.error) : inputOf(answer));
    this.next();
  }

  /** Whoever asked may have left meanwhile. */
  private done(result: EmbedInput | Error): void {
    const { current } = this;
    this.current = undefined;
    clearTimeout(current?.timer);
    if (current && !current.asked.settled) current.asked.settle(result);
  }

  /** It hangs where it reads its files: another tries anew, with a time of its own. */
  private startsTooLong(): void {
    this.log.warn({ ms: this.bounds.waitMs }, 'the tokenizer took too long to start');
    this.end();
    this.next();
  }

  private tooLong(): void {
    this.log.warn({ ms: this.bounds.encodeMs }, 'a text took too long to be tokenised');
    this.end();
    this.done(late('A text took too long to be tokenised.'));
    this.next();
  }

  private lost(why: string): void {
    this.log.warn({ why }, 'the tokenizer’s thread was lost');
    this.end();
    if (this.current) {
      this.done(fault(why));
      this.next();
      // One that can't start would not start for those behind either.
    } else this.drop(fault(why));
  }

  /** Of the thread; the next text starts another. */
  private end(): void {
    clearTimeout(this.starting);
    this.thread?.end();
    this.thread = undefined;
    this.ready = false;
  }

  /** Fails all, and ends the thread. */
  private drop(why: Error): void {
    this.end();
    this.done(why);
    for (const asked of [...this.waiting]) asked.settle(why);
  }
}

function inputOf({ ids, typeIds }: Extract<TokenizerAnswer, { case: 'encoded' }>): EmbedInput {
  return { ids: Array.from(ids), typeIds: typeIds && Array.from(typeIds) };
}

function late(what: string): ContractError {
  return new ContractError(Code.DeadlineExceeded, what);
}

function closing(): ContractError {
  return new ContractError(Code.Unavailable, 'The relay is closing.');
}

/** INTERNAL to a client. */
function fault(why: string): Error {
  return new Error(`the tokenizer failed: ${why}`);
}
