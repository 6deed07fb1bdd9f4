import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Detokenizer } from '../checkpoint/detokenizer.ts';
import { readTokenBytes } from '../checkpoint/token-bytes.ts';
import { readTokenizer } from '../checkpoint/tokenizer.ts';
import { CliError, messageOf } from './errors.ts';
import { asCliError, connectScheduler } from './scheduler-client.ts';
import type { HostPort } from './values.ts';

export interface GenerateOptions {
  readonly prompt: string;
  readonly relay: HostPort;
  readonly temperature?: number | undefined;
  readonly maxNewTokens?: number | undefined;
  readonly seed?: number | undefined;
  readonly json: boolean;
}

/** What --json prints as the last line. */
export interface GenerateResult {
  readonly prompt_ids: number[];
  readonly output_ids: number[];
  readonly text: string;
  readonly finish_reason: string;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly cached_tokens: number;
}

const INFO_BOUND_MS = 10_000;

/** Streams the prompt and what the model makes of it to `write`. */
export async function generate(
  options: GenerateOptions,
  write: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const client = await connectScheduler(options.relay);
  try {
    const info = await client.getModelInfo({}, { timeoutMs: INFO_BOUND_MS, signal });
    const { tokenizer, tokens } = await openTokenizer(info.tokenizerPath || info.modelPath);
    const promptIds = tokenizer.encode(options.prompt);
    // The prompt goes through as well: whether a space is stripped depends on what came before.
    const detokenizer = new Detokenizer(tokens, { skipSpecialTokens: true });
    for (const id of promptIds) detokenizer.push(id);

    const outputIds: number[] = [];
    let text = '';
    let result: GenerateResult | undefined;
    const emit = (piece: string) => {
      text += piece;
      if (piece !== '') write(piece);
    };
    const stream = client.generate(
      {
        requestId: `cli-${randomUUID()}`,
        tokenized: { originalText: options.prompt, inputIds: promptIds },
        samplingParams: {
          temperature: options.temperature ?? 1,
          topP: 1,
          topK: -1,
          repetitionPenalty: 1,
          n: 1,
          skipSpecialTokens: true,
          spacesBetweenSpecialTokens: true,
          ...(options.maxNewTokens === undefined ? {} : { maxNewTokens: options.maxNewTokens }),
          ...(options.seed === undefined ? {} : { customParams: { seed: options.seed } }),
        },
        logprobStartLen: -1,
        stream: true,
      },
      { signal },
    );
    let begun = false;
    for await (const { response } of stream) {
      // A refused request prints nothing.
      if (!begun) write(options.prompt);
      begun = true;
      if (response.case === 'chunk') {
        for (const id of response.value.tokenIds) {
          outputIds.push(id);
          emit(detokenizer.push(id));
        }
      } else if (response.case === 'complete') {
        emit(detokenizer.finish());
        result = {
          prompt_ids: promptIds,
          output_ids: outputIds,
          text,
          finish_reason: response.value.finishReason,
          prompt_tokens: response.value.promptTokens,
          completion_tokens: response.value.completionTokens,
          cached_tokens: response.value.cachedTokens,
        };
      }
    }
    write('\n');
    if (result === undefined) throw new CliError('the stream ended without a result.');
    if (options.json) write(`${JSON.stringify(result)}\n`);
  } catch (error) {
    if (signal.aborted) throw new CliError('stopped.', 130);
    throw asCliError(error, options.relay);
  }
}

async function openTokenizer(folder: string) {
  const file = join(folder, 'tokenizer.json');
  try {
    const [json, config] = await Promise.all([
      readFile(file, 'utf8'),
      readFile(join(folder, 'tokenizer_config.json'), 'utf8'),
    ]);
    return { tokenizer: readTokenizer(json, config, folder), tokens: readTokenBytes(json, file) };
  } catch (error) {
    throw new CliError(`the relay's tokenizer cannot be read here: ${messageOf(error)}`);
  }
}
