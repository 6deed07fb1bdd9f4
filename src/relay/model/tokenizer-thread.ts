import { existsSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import type { TokenizerAnswer, TokenizerAsk, TokenizerWorkerData } from './tokenizer-worker.ts';

/** Beside the built relay, and beside this file where it runs from its sources. */
const BUILT = new URL('./tokenizer-worker.js', import.meta.url);
const SOURCE = new URL('./tokenizer-worker.ts', import.meta.url);

export interface TokenizerListener {
  onAnswer(answer: TokenizerAnswer): void;
  /** It ended by itself, which it never should; `why` holds nothing of a text. */
  onLost(why: string): void;
}

/** A thread with a model's tokenizer. It doesn't keep the process alive. */
export class TokenizerThread {
  private readonly worker: Worker;
  private ended = false;

  /** `entry`: what it runs. */
  constructor(
    workerData: TokenizerWorkerData,
    listener: TokenizerListener,
    heapMib: number,
    entry: URL = existsSync(BUILT) ? BUILT : SOURCE,
  ) {
    this.worker = new Worker(entry, {
      workerData,
      resourceLimits: { maxOldGenerationSizeMb: heapMib },
      ...(entry.pathname.endsWith('.ts') ? { execArgv: stripTypes() } : {}),
    });
    this.worker.unref();
    let why = 'it ended';
    this.worker.on('message', (answer: TokenizerAnswer) => {
      if (!this.ended) listener.onAnswer(answer);
    });
    this.worker.on('error', (error: NodeJS.ErrnoException) => {
      why = error.code ?? error.name;
    });
    this.worker.on('exit', () => {
      if (this.ended) return;
      this.ended = true;
      listener.onLost(why);
    });
  }

  post(ask: TokenizerAsk): void {
    this.worker.postMessage(ask);
  }

  /** Nothing of it is heard from now on. */
  end(): void {
    this.ended = true;
    void this.worker.terminate();
  }
}

function stripTypes(): string[] {
  const byItself = (process.features as { typescript?: unknown }).typescript;
  return [...(byItself ? [] : ['--experimental-strip-types']), '--disable-warning=ExperimentalWarning'];
}
