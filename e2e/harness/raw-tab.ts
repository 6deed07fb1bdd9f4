import { until } from './wait.ts';

interface Answer {
  readonly id: number;
  readonly result?: { readonly result?: { readonly value?: unknown } };
  readonly error?: { readonly message: string };
}

/** A tab without Playwright, over the port of a browser with `--remote-debugging-port`: it is hidden where another is before it. */
export class RawTab {
  readonly #base: string;
  readonly #id: string;
  readonly #socket: WebSocket;
  readonly #asked = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  #calls = 0;

  private constructor(base: string, id: string, socket: WebSocket) {
    this.#base = base;
    this.#id = id;
    this.#socket = socket;
    socket.addEventListener('message', ({ data }) => {
      const { id: call, result, error } = JSON.parse(String(data)) as Answer;
      const asked = this.#asked.get(call);
      this.#asked.delete(call);
      if (error) asked?.reject(new Error(error.message));
      else asked?.resolve(result?.result?.value);
    });
    socket.addEventListener('close', () => {
      for (const { reject } of this.#asked.values()) reject(new Error('the tab was closed'));
    });
  }

  static async open(port: number, url: string): Promise<RawTab> {
    const base = `http://127.0.0.1:${port}/json`;
    const response = await fetch(`${base}/new?${encodeURIComponent(url)}`, { method: 'PUT' });
    const { id, webSocketDebuggerUrl } = (await response.json()) as { id: string; webSocketDebuggerUrl: string };
    const socket = new WebSocket(webSocketDebuggerUrl);
    await new Promise((resolve, reject) => {
      socket.addEventListener('open', resolve);
      socket.addEventListener('error', () => reject(new Error('the browser refuses its debugger')));
    });
    return new RawTab(base, id, socket);
  }

  /** What an expression comes to in the tab. */
  evaluate(expression: string): Promise<unknown> {
    const id = ++this.#calls;
    return new Promise((resolve, reject) => {
      this.#asked.set(id, { resolve, reject });
      this.#socket.send(
        JSON.stringify({ id, method: 'Runtime.evaluate', params: { expression, returnByValue: true } }),
      );
    });
  }

  async until(expression: string, boundMs: number): Promise<void> {
    await until(expression, boundMs, async () => Boolean(await this.evaluate(expression)));
  }

  /** Puts it before the others of its window. */
  async activate(): Promise<void> {
    await (await fetch(`${this.#base}/activate/${this.#id}`)).text();
  }

  async close(): Promise<void> {
    this.#socket.close();
    await (await fetch(`${this.#base}/close/${this.#id}`)).text();
  }
}
