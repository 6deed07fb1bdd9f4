import type { ByteSource } from '../checkpoint/byte-source.ts';
import { type Checkpoint, CheckpointError } from '../checkpoint/checkpoint.ts';
import { type ModelConfig, parseGenerationConfig, parseModelConfig } from '../checkpoint/model-config.ts';
import { MODULES_FILE, type ModelTask, modelTask } from '../checkpoint/model-task.ts';
import { type GgufModel, openGguf } from '../checkpoint/open-gguf.ts';
import { openSafetensors } from '../checkpoint/safetensors.ts';
import type { PoolingConfig } from '../checkpoint/sentence-transformers.ts';
import { openShardedSafetensors, SAFETENSORS_INDEX } from '../checkpoint/sharded-safetensors.ts';
import { readTokenBytes, type TokenBytes } from '../checkpoint/token-bytes.ts';

/** The files of a model, by name; read where and when they are needed. */
export interface ModelFiles {
  readonly names: readonly string[];
  /** Undefined where there is no file of that name. */
  open(name: string): ByteSource | undefined;
}

/** What a model's files say of its weights, which are yet unread. */
export interface ReadHeader {
  readonly checkpoint: Checkpoint;
  readonly config: ModelConfig;
  /** How vectors are made, where a .gguf says so. */
  readonly pooling?: PoolingConfig | undefined;
}

/** And of its tokens. */
export interface ReadModel extends ReadHeader {
  readonly tokens: TokenBytes;
  /** EOS. */
  readonly stopIds: readonly number[];
}

/**
 * Reads a model that is one .gguf, or config.json, tokenizer.json and safetensors, one file or several with their index.
 * Rejects with CheckpointError naming the file.
 */
export async function readModel(files: ModelFiles): Promise<ReadModel> {
  const gguf = await openedGguf(files);
  if (gguf) {
    const { checkpoint, config, tokens } = gguf;
    return { checkpoint, config, tokens, stopIds: config.eosTokenIds };
  }
  const { checkpoint, config } = await readHeader(files);
  const tokens = readTokenBytes(await fileText(files, 'tokenizer.json'), 'tokenizer.json');
  return { checkpoint, config, tokens, stopIds: (await generationStopIds(files)) ?? config.eosTokenIds };
}

/** The same without its tokens, which a model that makes no text does without. */
export async function readHeader(files: ModelFiles): Promise<ReadHeader> {
  const gguf = await openedGguf(files);
  if (gguf) return gguf;
  return { checkpoint: await openWeights(files), config: await readConfig(files) };
}

/** What a model is for. Rejects as readModel does. */
export async function readTask(files: ModelFiles): Promise<ModelTask> {
  const gguf = await openedGguf(files);
  const { architectures } = gguf?.config ?? (await readConfig(files));
  return modelTask(gguf ? gguf.pooling !== undefined : files.names.includes(MODULES_FILE), architectures);
}

async function readConfig(files: ModelFiles): Promise<ModelConfig> {
  return parseModelConfig(await fileText(files, 'config.json'), 'config.json');
}

/** Headers of .gguf files with their tokens, which take a while to read: what a model is for is asked before it is loaded. */
const opened = new WeakMap<ModelFiles, Promise<GgufModel>>();

/** Undefined where the model is no .gguf. */
async function openedGguf(files: ModelFiles): Promise<GgufModel | undefined> {
  const source = ggufOf(files);
  if (!source) return undefined;
  const opening = opened.get(files) ?? openGguf(source);
  opened.set(files, opening);
  return opening.catch((error: unknown) => {
    // The next may fare better.
    opened.delete(files);
    throw error;
  });
}

function ggufOf(files: ModelFiles): ByteSource | undefined {
  const names = files.names.filter((name) => name.endsWith('.gguf'));
  if (names.length === 0) return undefined;
  const source = names.length === 1 ? files.open(names[0]!) : undefined;
  if (source === undefined) throw new CheckpointError(`the model has ${names.length} .gguf files, and one is read`);
  return source;
}

async function openWeights(files: ModelFiles): Promise<Checkpoint> {
  if (files.names.includes(SAFETENSORS_INDEX)) {
    return openShardedSafetensors(await fileText(files, SAFETENSORS_INDEX), SAFETENSORS_INDEX, (name) =>
      files.open(name),
    );
  }
  // What a folder of its own has is a module's.
  const names = files.names.filter((name) => name.endsWith('.safetensors') && !name.includes('/'));
  const source = names.length === 1 ? files.open(names[0]!) : undefined;
  if (source === undefined) {
    throw new CheckpointError(`the model has ${names.length} .safetensors files and no ${SAFETENSORS_INDEX}`);
  }
  return openSafetensors(source);
}

async function generationStopIds(files: ModelFiles): Promise<readonly number[] | undefined> {
  const name = 'generation_config.json';
  return files.names.includes(name) ? parseGenerationConfig(await fileText(files, name), name).eosTokenIds : undefined;
}

/** A file's text. Rejects with CheckpointError where there is none of that name. */
export async function fileText(files: ModelFiles, name: string): Promise<string> {
  const source = files.open(name);
  if (source === undefined) throw new CheckpointError(`the model has no ${name}`);
  return new TextDecoder().decode(await source.read(0, source.size));
}
