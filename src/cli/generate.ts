import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Detokenizer } from '../checkpoint/detokenizer.ts';
import { readTokenBytes, type TokenBytes } from '../checkpoint/token-bytes.ts';
import { readTokenizer } from '../checkpoint/tokenizer.ts';
import type { GenerateRequest, GetModelInfoResponse } from '../contract/gen/sglang_scheduler_pb.ts';
import { CliError, messageOf } from './errors.ts';
import type { GenerateFlags } from './generate-flags.ts';
import { requestOf } from './generate-request.ts';
import { resultOf, SampleGatherer } from './generate-result.ts';
import { SampleWriter } from './sample-writer.ts';
import { asCliError, connectScheduler } from './scheduler-client.ts';

const INFO_BOUND_MS = 10_000;

/** Streams the prompt and what the model makes of it to `write`; with --json the whole result as a last line. */
export async function generate(
  flags: GenerateFlags,
  write: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const client = await connectScheduler(flags.relay);
  try {
    const info = await client.getModelInfo({}, { timeoutMs: INFO_BOUND_MS, signal });
    const { tokenizer, tokens } = await openTokenizer(info);
    const request = requestOf(flags, (prompt) => tokenizer.encode(prompt));
    const n = Math.max(1, request.samplingParams?.n ?? 1);
    const writer = new SampleWriter(n, () => promptOf(flags, request, tokens), write);
    const samples: { readonly gatherer: SampleGatherer; readonly detokenizer: Detokenizer }[] = [];
    const sampleAt = (index: number) => {
      samples[index] ??= {
        gatherer: new SampleGatherer(index, promptIdsOf(request).length),
        detokenizer: afterPrompt(request, tokens),
      };
      return samples[index];
    };
    for await (const { response } of client.generate(request, { signal })) {
      // A refused request prints nothing, and an error in the stream is followed by its status.
      if (response.case !== 'chunk' && response.case !== 'complete') continue;
      const { index } = response.value;
      const { gatherer, detokenizer } = sampleAt(index);
      const emit = (text: string) => {
        gatherer.text += text;
        writer.add(index, text);
      };
      if (response.case === 'chunk') {
        gatherer.addChunk(response.value);
        for (const id of response.value.tokenIds) emit(detokenizer.push(id));
      } else {
        for (const id of gatherer.addComplete(response.value)) emit(detokenizer.push(id));
        emit(detokenizer.finish());
        writer.end(index);
      }
    }
    const gatherers = Array.from({ length: n }, (_, index) => samples[index]?.gatherer);
    if (!gatherers.every((each) => each?.complete)) throw new CliError('the stream ended without a result.');
    if (flags.json) write(`${JSON.stringify(resultOf(request, gatherers as SampleGatherer[]))}\n`);
  } catch (error) {
    if (signal.aborted) throw new CliError('stopped.', 130);
    throw asCliError(error, flags.relay);
  }
}

function promptIdsOf(request: GenerateRequest): readonly number[] {
  return request.tokenized?.inputIds ?? [];
}

/** The text itself where it is known. */
function promptOf(flags: GenerateFlags, request: GenerateRequest, tokens: TokenBytes): string {
  const text = flags.prompt ?? request.tokenized?.originalText;
  if (text) return text;
  const detokenizer = new Detokenizer(tokens, { skipSpecialTokens: true });
  return promptIdsOf(request)
    .map((id) => detokenizer.push(id))
    .join('');
}

/** The prompt goes through as well: whether a space is stripped depends on what came before. */
function afterPrompt(request: GenerateRequest, tokens: TokenBytes): Detokenizer {
  const detokenizer = new Detokenizer(tokens, {
    skipSpecialTokens: request.samplingParams?.skipSpecialTokens ?? true,
  });
  for (const id of promptIdsOf(request)) detokenizer.push(id);
  return detokenizer;
}

async function openTokenizer(info: GetModelInfoResponse) {
  const folder = info.tokenizerPath || info.modelPath;
  const file = join(folder, 'tokenizer.json');
  try {
    const [json, config] = await Promise.all([
      readFile(file, 'utf8'),
      readFile(join(folder, 'tokenizer_config.json'), 'utf8'),
    ]);
    return { tokenizer: readTokenizer(json, config, folder), tokens: readTokenBytes(json, file) };
  } catch (error) {
    // A WordPiece tokenizer, say, has no way back to text.
    if (!info.isGeneration) {
      throw new CliError(`the relay's model ${info.servedModelName} generates no text: shoal embed asks it.`);
    }
    throw new CliError(`the relay's tokenizer cannot be read here: ${messageOf(error)}`);
  }
}
