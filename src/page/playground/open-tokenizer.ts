import type { ChatTemplate } from '../../checkpoint/chat-template.ts';
import type { ModelTask } from '../../checkpoint/model-task.ts';
import type { TokenBytes } from '../../checkpoint/token-bytes.ts';
import type { Tokenizer } from '../../checkpoint/tokenizer.ts';
import type { Ask } from '../../node/relay-access.ts';
import type { Fields } from './fields.ts';

const BOUND_MS = 60_000;

/** What a playground needs to know of the model that the relay serves. */
export interface PlaygroundModel {
  readonly name: string;
  /** In tokens, prompt and answer together. */
  readonly contextLength: number;
  readonly tokenizer: Tokenizer;
  readonly tokens: TokenBytes;
  /** Undefined where the model has none: it was not made for chats. */
  readonly template: ChatTemplate | undefined;
  /** How its makers sample from it (generation_config.json). */
  readonly advised: Partial<Fields>;
}

/** One that makes vectors or classifies: the relay tokenises its texts. */
export interface VectorModel {
  readonly name: string;
  readonly task: Exclude<ModelTask, 'generate'>;
  /** In tokens of one text. */
  readonly contextLength: number;
}

interface Listing {
  readonly task: ModelTask;
  readonly name: string;
  readonly contextLength: number;
  readonly files: readonly { readonly name: string }[];
}

/**
 * Gets the tokenizer and chat template from the relay (docs/relay-protocol.md), and the code that reads them. Rejects
 * with ConnectError where the relay doesn't let this page in, CheckpointError where a file can't be read, else Error.
 */
export async function openTokenizer(relayUrl: string, ask: Ask): Promise<PlaygroundModel | VectorModel> {
  const signal = AbortSignal.timeout(BOUND_MS);
  const get = async (path: string) => {
    const response = await ask(`${relayUrl}/tokenizer/${path}`, { signal });
    if (!response.ok) throw new Error(`/tokenizer/${path}: status ${response.status}`);
    return response.text();
  };
  // One after the other: on plain http all of an origin's tabs share six connections.
  const { name, contextLength, files, task } = JSON.parse(await get('manifest.json')) as Listing;
  if (task !== 'generate') return { name, task, contextLength };
  const file = async (wanted: string) =>
    files.some((one) => one.name === wanted) ? await get(`files/${wanted}`) : undefined;
  const config = (await file('tokenizer_config.json')) ?? '{}';
  const json = await get('files/tokenizer.json');
  const jinja = await file('chat_template.jinja');
  const generation = await file('generation_config.json');
  const [{ readTokenizer }, { readTokenBytes }, { readChatTemplate }] = await Promise.all([
    import('../../checkpoint/tokenizer.ts'),
    import('../../checkpoint/token-bytes.ts'),
    import('../../checkpoint/chat-template.ts'),
  ]);
  return {
    name,
    contextLength,
    tokenizer: readTokenizer(json, config, name),
    tokens: readTokenBytes(json, 'tokenizer.json'),
    template: readChatTemplate(config, jinja, name),
    advised: advisedFields(generation),
  };
}

const ADVISED = [
  ['temperature', 'temperature'],
  ['top_p', 'topP'],
  ['top_k', 'topK'],
  ['min_p', 'minP'],
  ['repetition_penalty', 'repetitionPenalty'],
] as const;

/** Of generation_config.json; one that says not to sample advises nothing. */
function advisedFields(json: string | undefined): Partial<Fields> {
  if (json === undefined) return {};
  let config: Readonly<Record<string, unknown>>;
  try {
    config = (JSON.parse(json) ?? {}) as Readonly<Record<string, unknown>>;
  } catch {
    // Only advice: the relay read the file before, and says what is wrong with it.
    return {};
  }
  if (config.do_sample === false) return {};
  return Object.fromEntries(
    ADVISED.flatMap(([key, field]) => (typeof config[key] === 'number' ? [[field, String(config[key])]] : [])),
  );
}
