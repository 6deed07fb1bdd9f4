import { Code, ConnectError } from '@connectrpc/connect';
import { signal } from '@preact/signals';
import { Detokenizer } from '../../checkpoint/detokenizer.ts';
import type { TokenBytes } from '../../checkpoint/token-bytes.ts';
import { MAX_SAMPLES } from '../../contract/check-served.ts';
import type {
  GenerateComplete,
  GenerateRequest,
  GenerateResponse,
  OutputLogProbs,
} from '../../contract/gen/sglang_scheduler_pb.ts';
import type { Fields } from './fields.ts';

/** Texts are shown this often at most. */
const SHOW_MS = 125;
/** The relay's own deadlines come before it. */
const BOUND_MS = 30 * 60_000;
/** The trailer with the ranks of the nodes that answered (docs/relay-protocol.md). */
const RANKS_TRAILER = 'x-shoal-ranks';

export interface Alternative {
  readonly id: number;
  /** Natural log. */
  readonly logprob: number;
}

export interface ShownToken {
  readonly id: number;
  /** Natural log; undefined where none was asked for. */
  readonly logprob: number | undefined;
  /** The likeliest tokens at its place, the best first. */
  readonly alternatives: readonly Alternative[];
}

export interface ShownSample {
  readonly index: number;
  readonly text: string;
  readonly tokens: readonly ShownToken[];
  /** As the contract says it: "stop", "length", "abort"; undefined while it runs. */
  readonly finish: string | undefined;
  /** What ended it, where a token or a text did. */
  readonly matched: number | string | undefined;
}

export type CompletionState = 'waiting' | 'streaming' | 'done' | 'stopped' | 'failed';

export interface Figures {
  readonly promptTokens: number | undefined;
  readonly cachedTokens: number | undefined;
  readonly outputTokens: number;
  /** From the request to its first token. */
  readonly firstTokenMs: number | undefined;
  /** From the first token to the last. */
  readonly tokensPerSecond: number | undefined;
  /** Of the nodes that answered, in order; empty where the relay didn't tell. */
  readonly ranks: readonly number[];
}

/** As a Connect client has it. */
export type GenerateCall = (
  request: GenerateRequest,
  options: { readonly signal: AbortSignal; readonly timeoutMs: number; readonly onTrailer: (trailer: Headers) => void },
) => AsyncIterable<GenerateResponse>;

/** One request as it is answered. */
export class Completion {
  readonly id: string;
  readonly state = signal<CompletionState>('waiting');
  /** Why it failed. */
  readonly problem = signal<ConnectError | undefined>(undefined);
  readonly samples = signal<readonly ShownSample[]>([]);
  readonly figures = signal<Figures>({
    promptTokens: undefined,
    cachedTokens: undefined,
    outputTokens: 0,
    firstTokenMs: undefined,
    tokensPerSecond: undefined,
    ranks: [],
  });
  /** Settles once it is over, however it ended. */
  readonly over: Promise<void>;
  readonly #gathered: Gathered[];
  /** One that has read the prompt, and leaves special tokens out. */
  readonly #detokenizer: () => Detokenizer;
  readonly #stop = new AbortController();
  readonly #startedAt = performance.now();
  #firstAt: number | undefined;
  #lastAt = 0;
  #ranks: number[] = [];
  #shows: ReturnType<typeof setTimeout> | undefined;

  constructor(call: GenerateCall, request: GenerateRequest, tokens: TokenBytes, fields: Fields) {
    const prompt = request.tokenized?.inputIds ?? [];
    this.id = request.requestId;
    this.#detokenizer = () => {
      const detokenizer = new Detokenizer(tokens, { skipSpecialTokens: true });
      for (const id of prompt) detokenizer.push(id);
      return detokenizer;
    };
    // As the relay counts them: none asked for is one, and more than it serves it refuses.
    const samples = Math.min(Math.max(request.samplingParams?.n ?? 1, 1), MAX_SAMPLES);
    this.#gathered = Array.from(
      { length: samples },
      (_, index) => new Gathered(index, prompt, tokens, fields.skipSpecialTokens),
    );
    this.#show();
    this.over = this.#run(call, request);
  }

  get running(): boolean {
    return this.state.value === 'waiting' || this.state.value === 'streaming';
  }

  /** The first sample as a chat's past has it: its template writes the special tokens. */
  get said(): string {
    const detokenizer = this.#detokenizer();
    return (this.#gathered[0]?.tokens ?? []).map(({ id }) => detokenizer.push(id)).join('') + detokenizer.finish();
  }

  stop(): void {
    this.#stop.abort();
  }

  async #run(call: GenerateCall, request: GenerateRequest): Promise<void> {
    let end: CompletionState = 'done';
    try {
      const options = {
        signal: this.#stop.signal,
        timeoutMs: BOUND_MS,
        onTrailer: (trailer: Headers) => this.#told(trailer),
      };
      for await (const { response } of call(request, options)) {
        if (response.case === 'chunk') {
          const { index, tokenIds, outputLogprobs } = response.value;
          this.#gathered[index]?.add(tokenIds, outputLogprobs);
        } else if (response.case === 'complete') this.#gathered[response.value.index]?.end(response.value);
        // An error is followed by its status.
        else continue;
        this.#count();
      }
      if (this.#gathered.some((one) => one.complete === undefined)) {
        throw new ConnectError('the stream ended without a result', Code.DataLoss);
      }
    } catch (error) {
      end = this.#stop.signal.aborted ? 'stopped' : 'failed';
      if (end === 'failed') this.problem.value = ConnectError.from(error);
    }
    clearTimeout(this.#shows);
    this.#show();
    this.state.value = end;
  }

  #told(trailer: Headers): void {
    const text = trailer.get(RANKS_TRAILER);
    if (text) this.#ranks = text.split(',').map(Number);
  }

  #count(): void {
    this.#lastAt = performance.now();
    this.#firstAt ??= this.#lastAt;
    this.state.value = 'streaming';
    this.#shows ??= setTimeout(() => {
      this.#shows = undefined;
      this.#show();
    }, SHOW_MS);
  }

  #show(): void {
    this.samples.value = this.#gathered.map((one) => one.shown());
    const outputTokens = this.#gathered.reduce((sum, { tokens }) => sum + tokens.length, 0);
    const streamedMs = this.#firstAt === undefined ? 0 : this.#lastAt - this.#firstAt;
    const { complete } = this.#gathered.find((one) => one.complete) ?? {};
    this.figures.value = {
      promptTokens: complete?.promptTokens,
      cachedTokens: complete?.cachedTokens,
      outputTokens,
      firstTokenMs: this.#firstAt === undefined ? undefined : this.#firstAt - this.#startedAt,
      tokensPerSecond: streamedMs > 0 && outputTokens > 1 ? ((outputTokens - 1) * 1000) / streamedMs : undefined,
      ranks: this.#ranks,
    };
  }
}

/** What came of one sample. */
class Gathered {
  readonly tokens: ShownToken[] = [];
  complete: GenerateComplete | undefined;
  readonly #index: number;
  readonly #detokenizer: Detokenizer;
  #text = '';
  #last: ShownSample | undefined;

  constructor(index: number, prompt: readonly number[], tokens: TokenBytes, skipSpecialTokens: boolean) {
    this.#index = index;
    this.#detokenizer = new Detokenizer(tokens, { skipSpecialTokens });
    // Whether a space is stripped depends on what came before.
    for (const id of prompt) this.#detokenizer.push(id);
  }

  add(ids: readonly number[], logprobs: OutputLogProbs | undefined, from = 0): void {
    for (let at = from; at < ids.length; at++) {
      const id = ids[at]!;
      const top = logprobs?.topLogprobs[at];
      this.tokens.push({
        id,
        logprob: logprobs?.tokenLogprobs[at],
        alternatives: top ? top.tokenIds.map((other, i) => ({ id: other, logprob: top.values[i]! })) : [],
      });
      this.#text += this.#detokenizer.push(id);
    }
    this.#last = undefined;
  }

  end(complete: GenerateComplete): void {
    // Ids that no chunk has brought.
    this.add(complete.outputIds, complete.outputLogprobs, this.tokens.length);
    this.complete = complete;
    this.#text += this.#detokenizer.finish();
  }

  /** The same object until something comes. */
  shown(): ShownSample {
    this.#last ??= {
      index: this.#index,
      text: this.#text,
      tokens: [...this.tokens],
      finish: this.complete?.finishReason,
      matched: this.complete?.matchedStop.value,
    };
    return this.#last;
  }
}
