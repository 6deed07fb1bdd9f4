import { parseModelConfig } from '../../checkpoint/model-config.ts';
import { MODULES_FILE } from '../../checkpoint/model-task.ts';
import { type ReadText, readPooling } from '../../checkpoint/sentence-transformers.ts';
import { SAFETENSORS_INDEX, shardNames } from '../../checkpoint/sharded-safetensors.ts';
import { ModelError } from './model-error.ts';

/** What every model folder has beside its weights. */
const REQUIRED = ['config.json', 'tokenizer.json'];
/** What a node or a gateway's tokenizer needs where it is there. */
const OPTIONAL = [
  'generation_config.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'chat_template.json',
  'chat_template.jinja',
];

/** A file, or one in a folder: none that begins with a dot. */
const SAFE_PATH = /^[\w-][\w.-]*(\/[\w-][\w.-]*)?$/;

/**
 * The files of a folder that are a model, by name; anything else beside them is no part of it. `where` is what errors
 * call the folder, `readText` reads a file of it, or of a folder in it; undefined where there is none. Throws ModelError where one is missing, CheckpointError where an
 * index is no index.
 */
export async function modelFileNames(names: readonly string[], where: string, readText: ReadText): Promise<string[]> {
  for (const required of REQUIRED) {
    if (!names.includes(required)) throw new ModelError(`there is no model in ${where}: ${required} is missing`);
  }
  const weights = await weightNames(names, where, readText);
  const pooling = names.includes(MODULES_FILE) ? await poolingNames(readText) : [];
  const there = OPTIONAL.filter((name) => names.includes(name));
  return [...new Set([...REQUIRED, ...there, ...pooling, ...weights])].sort();
}

/** What says how hidden states become a vector, some of it in folders of its own: the files that reading it reads. */
async function poolingNames(readText: ReadText): Promise<readonly string[]> {
  const { hiddenSize } = parseModelConfig((await readText('config.json')) ?? '', 'config.json');
  const read: string[] = [];
  const readOwn = async (name: string) => {
    // modules.json names folders, and could name another's.
    if (!SAFE_PATH.test(name))
      throw new ModelError(`${MODULES_FILE} names ${JSON.stringify(name)}, which is no file of the model`);
    const text = await readText(name);
    if (text !== undefined) read.push(name);
    return text;
  };
  const pooling = await readPooling(readOwn, hiddenSize);
  for (const { file } of pooling?.dense ?? []) {
    if ((await readOwn(file)) === undefined) throw new ModelError(`${MODULES_FILE} needs ${file}, which is missing`);
  }
  return read;
}

/** As transformers looks for them: one file, else several by their index. */
async function weightNames(names: readonly string[], where: string, readText: ReadText): Promise<readonly string[]> {
  if (names.includes('model.safetensors')) return ['model.safetensors'];
  if (names.includes(SAFETENSORS_INDEX)) {
    const shards = shardNames((await readText(SAFETENSORS_INDEX)) ?? '', SAFETENSORS_INDEX);
    for (const shard of shards) {
      if (!names.includes(shard)) {
        throw new ModelError(
          `there is no whole model in ${where}: ${SAFETENSORS_INDEX} names ${shard}, which is missing`,
        );
      }
    }
    return [SAFETENSORS_INDEX, ...shards];
  }
  const weights = names.filter((name) => name.endsWith('.safetensors'));
  if (weights.length === 1) return weights;
  throw new ModelError(
    weights.length === 0
      ? `there is no model in ${where}: it has no .safetensors file`
      : `${where} has ${weights.length} .safetensors files and no ${SAFETENSORS_INDEX} that says which of them are the model`,
  );
}

/** The .gguf of a folder that has one and no safetensors. Throws ModelError where it has several. */
export function onlyGguf(names: readonly string[], where: string): string | undefined {
  if (names.some((name) => name.endsWith('.safetensors'))) return undefined;
  const files = names.filter((name) => name.endsWith('.gguf')).sort();
  if (files.length > 1) throw new ModelError(`${where} has ${files.length} .gguf files; name one: ${files.join(', ')}`);
  return files[0];
}

/** Throws ModelError for a .gguf that is a part of one. */
export function checkWholeGguf(name: string): void {
  if (/-\d{5}-of-\d{5}\.gguf$/.test(name)) {
    throw new ModelError(`${name} is a part of a model in several .gguf files; one in a single file is read`);
  }
}
