import type { NodeMessage, PageMessage } from '../node/messages.ts';
import NodeWorker from '../node/worker.ts?worker';
import { connectModels } from './models/models.ts';

/** The relay may be away just when the Web Worker's script is asked for. */
const SCRIPT_RETRY_MS = 2_000;

export interface NodeThreadEvents {
  readonly onMessage: (message: NodeMessage) => void;
  /** Whether anything runs in it: of one that nothing runs in no end is told. */
  readonly wanted: () => boolean;
  /** It ended by an error; there is none until the next `start`. */
  readonly onError: (reason: string) => void;
  /** Its script did not come, and will be asked for again. */
  readonly onScriptMissing: () => void;
  /** The script that did not come is there. */
  readonly onStartedAgain: () => void;
}

/** The Web Worker that this page's node runs in. */
export class NodeThread {
  readonly #events: NodeThreadEvents;
  #worker: Worker | undefined;

  constructor(events: NodeThreadEvents) {
    this.#events = events;
    this.start();
  }

  get there(): boolean {
    return this.#worker !== undefined;
  }

  /** Unless it is there. */
  start(): void {
    this.#worker ??= this.#started();
  }

  /** Ends it, and what it holds, and starts another; does nothing where there is none. */
  replace(): void {
    if (!this.#worker) return;
    this.#worker.terminate();
    this.#worker = this.#started();
  }

  /** Says nothing where it isn't there. */
  tell(message: PageMessage): void {
    this.#worker?.postMessage(message);
  }

  #started(): Worker {
    const next = new NodeWorker();
    next.onmessage = (event: MessageEvent<NodeMessage>) => this.#events.onMessage(event.data);
    next.onerror = (event) => {
      next.terminate();
      this.#worker = undefined;
      if (!this.#events.wanted()) return;
      // Without a message its script did not come; else one that can't start would be followed by one that can't.
      if (event.message) this.#events.onError(event.message);
      else {
        this.#events.onScriptMissing();
        setTimeout(() => this.#startAgain(), SCRIPT_RETRY_MS);
      }
    };
    connectModels((message) => next.postMessage(message));
    return next;
  }

  #startAgain(): void {
    if (!this.#events.wanted() || this.#worker) return;
    this.start();
    this.#events.onStartedAgain();
  }
}
