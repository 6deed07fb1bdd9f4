/** Just enough of the gateway's HTTP for tests: what a `curl` sees. */

export interface ChatChoice {
  readonly index: number;
  readonly message?: { readonly content: string };
  readonly delta?: { readonly content?: string | null };
  readonly text?: string;
  readonly finish_reason: string | null;
  readonly logprobs?: {
    readonly content?: readonly {
      readonly token: string;
      readonly logprob: number;
      readonly top_logprobs: readonly { readonly logprob: number }[];
    }[];
  } | null;
}

export interface Completion {
  readonly choices: readonly ChatChoice[];
  readonly usage?: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly total_tokens: number;
  } | null;
}

export function post(url: string, body: unknown, signal: AbortSignal = AbortSignal.timeout(50_000)): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  });
}

export async function postJson<T = Completion>(url: string, body: unknown): Promise<T> {
  const response = await post(url, body);
  const text = await response.text();
  if (!response.ok) throw new Error(`${url} answers ${response.status}: ${text}`);
  return JSON.parse(text) as T;
}

/** The events of a streamed answer, to `[DONE]`, which must come. */
export async function* events<T = Completion>(response: Response): AsyncGenerator<T> {
  if (!response.ok) throw new Error(`it answers ${response.status}: ${await response.text()}`);
  const decoder = new TextDecoder();
  let buffered = '';
  for await (const bytes of response.body!) {
    buffered += decoder.decode(bytes, { stream: true });
    const parts = buffered.split('\n\n');
    buffered = parts.pop()!;
    for (const part of parts) {
      const data = part
        .split('\n')
        .filter((line) => line.startsWith('data:'))
        .map((line) => line.slice(5).trim())
        .join('\n');
      if (data === '[DONE]') return;
      if (data !== '') yield JSON.parse(data) as T;
    }
  }
  throw new Error('the stream ended without [DONE]');
}

/** Text, finish reason and usage of a streamed answer, by choice. */
export async function gather(response: Response) {
  const pieces: string[][] = [];
  const finishReasons: (string | undefined)[] = [];
  let usage: Completion['usage'];
  for await (const event of events(response)) {
    usage = event.usage ?? usage;
    for (const { index, delta, text, finish_reason } of event.choices) {
      const piece = delta?.content ?? text ?? '';
      pieces[index] ??= [];
      if (piece !== '') pieces[index].push(piece);
      if (finish_reason) {
        if (finishReasons[index]) throw new Error(`choice ${index} finished twice`);
        finishReasons[index] = finish_reason;
      }
    }
  }
  return { texts: pieces.map((own) => own.join('')), pieces, finishReasons, usage };
}
