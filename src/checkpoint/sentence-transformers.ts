import { CheckpointError } from './checkpoint.ts';
import { type DenseModule, readDenseModule } from './dense-module.ts';
import { MODULES_FILE } from './model-task.ts';

/** How hidden states become one vector: their mean, the first one, the last one, or the largest number of each column. */
export type PoolingKind = 'mean' | 'cls' | 'last' | 'max';

/** What the files of sentence-transformers say of a model. */
export interface PoolingConfig {
  readonly kind: PoolingKind;
  /** What the pooled vector goes through, in this order; absent: nothing. */
  readonly dense?: readonly DenseModule[];
  /** The vector is divided by its length. */
  readonly normalised: boolean;
  /** Ids of one text at most, below what the model has positions for. */
  readonly maxLength?: number;
}

/** Reads a file of the model's folder; undefined where there is none. */
export type ReadText = (name: string) => Promise<string | undefined>;

const SETTINGS = 'sentence_bert_config.json';

/** Ways of pooling by their names, before and since version 5 of sentence-transformers. */
const FLAGS: Readonly<Record<string, PoolingKind>> = {
  pooling_mode_cls_token: 'cls',
  pooling_mode_mean_tokens: 'mean',
  pooling_mode_max_tokens: 'max',
  pooling_mode_lasttoken: 'last',
};
const MODES: Readonly<Record<string, PoolingKind>> = { cls: 'cls', mean: 'mean', max: 'max', lasttoken: 'last' };

/**
 * Reads modules.json and what it names; undefined where the model has none. `hiddenSize` is the model's. Rejects with
 * CheckpointError naming file and key, also for a module or a setting that is not served.
 */
export async function readPooling(readText: ReadText, hiddenSize: number): Promise<PoolingConfig | undefined> {
  const text = await readText(MODULES_FILE);
  if (text === undefined) return undefined;
  const modules = parse(text, MODULES_FILE);
  if (!Array.isArray(modules)) return fail(MODULES_FILE, 'it is no list of modules');
  let kind: PoolingKind | undefined;
  let normalised = false;
  const dense: DenseModule[] = [];
  for (const [i, module] of modules.entries()) {
    const { type, path } = (module ?? {}) as { readonly type?: unknown; readonly path?: unknown };
    if (typeof type !== 'string' || typeof path !== 'string')
      return fail(MODULES_FILE, `module ${i} has no type and path`);
    const name = type.split('.').at(-1)!;
    if (name === 'Transformer' && i === 0) {
      if (path !== '') fail(MODULES_FILE, `the model lies in ${path}; one in the folder itself is read`);
    } else if (name === 'Pooling' && i === 1) {
      kind = await readKind(readText, path === '' ? 'config.json' : `${path}/config.json`, hiddenSize);
    } else if (name === 'Dense' && i >= 2) {
      const config = await readObject(readText, `${path}/config.json`);
      dense.push(readDenseModule(path, config, dense.at(-1)?.outputs ?? hiddenSize));
    } else if (name === 'Normalize' && i >= 2 && i === modules.length - 1) normalised = true;
    else
      fail(MODULES_FILE, `module ${i} is ${type}; Transformer, Pooling, Dense and Normalize are served, in this order`);
  }
  if (kind === undefined) return fail(MODULES_FILE, 'it has no Pooling');
  const maxLength = await readMaxLength(readText);
  return {
    kind,
    normalised,
    ...(dense.length > 0 ? { dense } : {}),
    ...(maxLength === undefined ? {} : { maxLength }),
  };
}

/** The files that say so, by name, with their texts; a length is the model's own. */
export function poolingFiles(
  { kind, normalised }: PoolingConfig,
  hiddenSize: number,
): readonly (readonly [name: string, text: string])[] {
  const names = ['Transformer', 'Pooling', ...(normalised ? ['Normalize'] : [])];
  const modules = names.map((name, idx) => ({
    ...{ idx, name: String(idx), path: idx === 0 ? '' : `${idx}_${name}` },
    type: `sentence_transformers.models.${name}`,
  }));
  const mode = Object.keys(MODES).find((each) => MODES[each] === kind);
  return [
    [MODULES_FILE, JSON.stringify(modules)],
    ['1_Pooling/config.json', JSON.stringify({ embedding_dimension: hiddenSize, pooling_mode: mode })],
  ];
}

async function readKind(readText: ReadText, file: string, hiddenSize: number): Promise<PoolingKind> {
  const config = await readObject(readText, file);
  const kinds: PoolingKind[] = [];
  for (const [key, value] of Object.entries(config)) {
    if (key === 'word_embedding_dimension' || key === 'embedding_dimension') {
      if (value !== hiddenSize) fail(file, `${key} is ${JSON.stringify(value)}, the model has ${hiddenSize}`);
    } else if (key === 'pooling_mode') {
      if (typeof value !== 'string' || !Object.hasOwn(MODES, value)) {
        fail(file, `pooling_mode is ${JSON.stringify(value)}; ${Object.keys(MODES).join(', ')} are served`);
      }
      kinds.push(MODES[value as string]!);
    } else if (Object.hasOwn(FLAGS, key)) {
      if (value === true) kinds.push(FLAGS[key]!);
      else if (value !== false) fail(file, `${key} is ${JSON.stringify(value)}, neither true nor false`);
    } else if (key === 'include_prompt') {
      if (value !== true) fail(file, 'include_prompt is off, and where a prompt ends is not known here');
    } else if (value !== false && value !== null) {
      fail(file, `${key} is ${JSON.stringify(value)}, which is not served`);
    }
  }
  if (kinds.length !== 1) return fail(file, `it names ${kinds.length} ways of pooling, and one is served`);
  return kinds[0]!;
}

async function readObject(readText: ReadText, file: string): Promise<Record<string, unknown>> {
  const text = await readText(file);
  return text === undefined ? fail(MODULES_FILE, `it names ${file}, which is missing`) : parseObject(text, file);
}

async function readMaxLength(readText: ReadText): Promise<number | undefined> {
  const text = await readText(SETTINGS);
  if (text === undefined) return undefined;
  const { max_seq_length: length, do_lower_case: lowers } = parseObject(text, SETTINGS);
  if (lowers && !(await lowersText(readText))) {
    fail(SETTINGS, "do_lower_case is on, and the tokenizer doesn't do that");
  }
  if (length === undefined || length === null) return undefined;
  if (!Number.isSafeInteger(length) || (length as number) < 1) {
    fail(SETTINGS, `max_seq_length is ${JSON.stringify(length)}, not a length`);
  }
  return length as number;
}

/** Whether the tokenizer makes a text's letters small. */
async function lowersText(readText: ReadText): Promise<boolean> {
  const { normalizer } = parseObject((await readText('tokenizer.json')) ?? '{}', 'tokenizer.json');
  const found = JSON.stringify(normalizer ?? null);
  return /"type":"Lowercase"|"lowercase":true/.test(found);
}

function parseObject(text: string, file: string): Record<string, unknown> {
  const value = parse(text, file);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) fail(file, 'not a JSON object');
  return value as Record<string, unknown>;
}

function parse(text: string, file: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    return fail(file, `not JSON (${(error as Error).message})`);
  }
}

function fail(file: string, reason: string): never {
  throw new CheckpointError(`${file}: ${reason}`);
}
