import type { ByteSource } from '../checkpoint/byte-source.ts';
import { type Checkpoint, CheckpointError } from '../checkpoint/checkpoint.ts';
import { type ModelConfig, parseGenerationConfig, parseModelConfig } from '../checkpoint/model-config.ts';
import { openGguf } from '../checkpoint/open-gguf.ts';
import { openSafetensors } from '../checkpoint/safetensors.ts';
import { openShardedSafetensors, SAFETENSORS_INDEX } from '../checkpoint/sharded-safetensors.ts';
import { readTokenBytes, type TokenBytes } from '../checkpoint/token-bytes.ts';

/** The files of a model, by name; read where and when they are needed. */
export interface ModelFiles {
  readonly names: readonly string[];
  /** Undefined where there is no file of that name. */
  open(name: string): ByteSource | undefined;
}

/** What a model's files say, its weights yet unread. */
export interface ReadModel {
  readonly checkpoint: Checkpoint;
  readonly config: ModelConfig;
  readonly tokens: TokenBytes;
  /** EOS. */
  readonly stopIds: readonly number[];
}

/**
 * Reads a model that is one .gguf, or config.json, tokenizer.json and safetensors, one file or several with their index.
 * Rejects with CheckpointError naming the file.
 */
export async function readModel(files: ModelFiles): Promise<ReadModel> {
  const gguf = files.names.filter((name) => name.endsWith('.gguf'));
  if (gguf.length > 0) {
    const source = gguf.length === 1 ? files.open(gguf[0]!) : undefined;
    if (source === undefined) throw new CheckpointError(`the model has ${gguf.length} .gguf files, and one is read`);
    const { checkpoint, config, tokens } = await openGguf(source);
    return { checkpoint, config, tokens, stopIds: config.eosTokenIds };
  }
  const config = parseModelConfig(await fileText(files, 'config.json'), 'config.json');
  const checkpoint = await openWeights(files);
  const tokens = readTokenBytes(await fileText(files, 'tokenizer.json'), 'tokenizer.json');
  return { checkpoint, config, tokens, stopIds: (await generationStopIds(files)) ?? config.eosTokenIds };
}

async function openWeights(files: ModelFiles): Promise<Checkpoint> {
  if (files.names.includes(SAFETENSORS_INDEX)) {
    return openShardedSafetensors(await fileText(files, SAFETENSORS_INDEX), SAFETENSORS_INDEX, (name) =>
      files.open(name),
    );
  }
  const names = files.names.filter((name) => name.endsWith('.safetensors'));
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

async function fileText(files: ModelFiles, name: string): Promise<string> {
  const source = files.open(name);
  if (source === undefined) throw new CheckpointError(`the model has no ${name}`);
  return new TextDecoder().decode(await source.read(0, source.size));
}
