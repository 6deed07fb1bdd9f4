import type {
  GrammarAnswer,
  GrammarReport,
  GrammarTask,
  GrammarWorker,
  StartGrammarWorker,
  Vocabulary,
} from './grammar-messages.ts';

/** How long a worker may take to load and to read the vocabulary, in milliseconds. */
const START_MS = 30_000;
const GRACE_MS = 20;

/** A worker is gone, and the task with it. */
export class LinkLostError extends Error {
  override readonly name = 'LinkLostError';
  /**
   * 'start': it never came to work. 'ended': by the caller, or by a task before this one. Else it was this task; or, of
   * several tasks 'accept' given in one turn, one of them.
   */
  readonly why: 'refused' | 'memory' | 'nesting' | 'failed' | 'time' | 'start' | 'ended';

  constructor(why: LinkLostError['why'], reason: string) {
    super(reason);
    this.why = why;
  }
}

type AnsweredTask = Extract<GrammarTask, { op: 'compile' | 'open' | 'accept' | 'look' }>;

interface PendingTask {
  readonly boundMs: number;
  readonly resolve: (answer: GrammarAnswer) => void;
  readonly reject: (error: LinkLostError) => void;
}

/** One grammar worker's life: tasks in order, those of one turn in one message, each within its own time. */
export class GrammarLink {
  heapBytes = 0;
  readonly #worker: GrammarWorker;
  /** Given and not answered, in order; the first is at work. */
  readonly #pending: PendingTask[] = [];
  #unsent: GrammarTask[] = [];
  #started = false;
  #lost: LinkLostError | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(start: StartGrammarWorker, vocabulary: Vocabulary, maxHeapBytes: number) {
    this.#worker = start(
      (report) => this.#take(report),
      (reason) => this.#lose(this.#started ? 'failed' : 'start', reason),
    );
    this.#watch(START_MS, 'no answer in time');
    this.#worker.post({ type: 'start', vocabulary, maxHeapBytes });
  }

  get lost(): boolean {
    return this.#lost !== undefined;
  }

  /** Rejects with LinkLostError where the worker is lost before the answer. */
  run(task: AnsweredTask, boundMs: number): Promise<GrammarAnswer> {
    return new Promise((resolve, reject) => {
      if (this.#lost !== undefined) return reject(this.#lost);
      this.#pending.push({ boundMs, resolve, reject });
      if (this.#pending.length === 1 && this.#started) this.#watchFirst();
      this.tell(task);
    });
  }

  /** A task without an answer. */
  tell(task: GrammarTask): void {
    if (this.#lost !== undefined) return;
    this.#unsent.push(task);
    if (this.#unsent.length === 1) queueMicrotask(() => this.#send());
  }

  /** Ends the worker; all that is pending rejects. */
  end(): void {
    this.#lose('ended', 'ended');
  }

  #send(): void {
    if (this.#unsent.length > 0 && this.#lost === undefined) {
      this.#worker.post({ type: 'work', tasks: this.#unsent });
    }
    this.#unsent = [];
  }

  #take(report: GrammarReport): void {
    if (this.#lost !== undefined) return;
    switch (report.type) {
      case 'started':
        this.#started = true;
        break;
      case 'done':
        this.heapBytes = report.heapBytes;
        for (const answer of report.answers) this.#pending.shift()?.resolve(answer);
        break;
      case 'broken':
        this.#lose(this.#started ? report.why : 'start', report.reason);
        return;
    }
    this.#watchFirst();
  }

  #watchFirst(): void {
    clearTimeout(this.#timer);
    const [first] = this.#pending;
    if (first !== undefined) this.#watch(first.boundMs, `over ${first.boundMs / 1_000} s`);
  }

  #watch(ms: number, reason: string): void {
    this.#timer = setTimeout(() => {
      // This thread may have been the late one: what came meanwhile is taken first.
      this.#timer = setTimeout(() => this.#lose(this.#started ? 'time' : 'start', reason), GRACE_MS);
    }, ms);
  }

  #lose(why: LinkLostError['why'], reason: string): void {
    if (this.#lost !== undefined) return;
    this.#lost = new LinkLostError('ended', 'its worker is gone');
    clearTimeout(this.#timer);
    this.#worker.terminate();
    const [first, ...rest] = this.#pending.splice(0);
    first?.reject(new LinkLostError(why, reason));
    // A worker that can't start can't for any of them.
    for (const { reject } of rest) reject(why === 'start' ? new LinkLostError(why, reason) : this.#lost);
  }
}
