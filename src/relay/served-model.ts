import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { checkServed } from '../checkpoint/check-served.ts';
import {
  canonicalJson,
  digestManifest,
  type Manifest,
  type ManifestFile,
  type ManifestQuantisation,
  PIECE_BYTES,
} from '../checkpoint/manifest.ts';
import type { ModelAbout } from '../checkpoint/model-about.ts';
import {
  type GenerationConfig,
  type ModelConfig,
  parseGenerationConfig,
  parseModelConfig,
} from '../checkpoint/model-config.ts';
import { ENCODER_TASKS, MODULES_FILE, type ModelTask, modelTask } from '../checkpoint/model-task.ts';
import { type PoolingConfig, readPooling } from '../checkpoint/sentence-transformers.ts';
import { textPartOf } from '../checkpoint/text-part.ts';
import { staysUnread } from '../checkpoint/unread-tensors.ts';
import { hashFile } from './model/file-hashes.ts';
import { type ServedVectors, servedVectors } from './model/served-vectors.ts';
import { countTensors, type TensorShape, tensorShapes } from './model/tensor-shapes.ts';
import { TokenizerBundle } from './tokenizer-bundle.ts';
import { tokenizerHashes } from './tokenizer-file-names.ts';

/** The one model that a relay serves, and what its files say of it. */
export interface ServedModel {
  /** As clients of the gateway name it. */
  readonly name: string;
  /** Absolute folder on this machine; the gateway reads the tokenizer there. */
  readonly folder: string;
  /** What a gateway gets that has no such folder. */
  readonly tokenizer: TokenizerBundle;
  /** SHA-256 of the files that a text's ids and a chat's form follow from, by name, hex. */
  readonly tokenizerHashes: Readonly<Record<string, string>>;
  /** Absolute paths of the manifest's files, by name. */
  readonly paths: Readonly<Record<string, string>>;
  readonly manifest: Manifest;
  /** Exactly the text whose SHA-256 is `digest`. */
  readonly manifestJson: string;
  /** SHA-256 of the manifest, hex. */
  readonly digest: string;
  /** What nodes are told before they download anything. */
  readonly about: Omit<ModelAbout, 'bases'>;
  /** Of its weights, by name; undefined where they can't be read. */
  readonly tensors: ReadonlyMap<string, TensorShape> | undefined;
  /** Where the hub has the files of this commit, ending with a slash; undefined where the model isn't the hub's. */
  readonly hubUrl: string | undefined;
  readonly task: ModelTask;
  /** Of a model that embeds or classifies. */
  readonly vectors: ServedVectors | undefined;
  /** What sentence-transformers' files say, where it has some. */
  readonly pooling: PoolingConfig | undefined;
  readonly architectures: readonly string[];
  readonly modelType: string;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  /** Undefined where config.json doesn't say. */
  readonly layers: number | undefined;
  /** Tokens of prompt and output together. */
  readonly contextLength: number;
  readonly eosTokenIds: readonly number[];
  readonly bosTokenId: number | undefined;
  readonly padTokenId: number | undefined;
}

/** Where a served model's files are. */
export interface ServedFiles {
  readonly name: string;
  /** With config.json, tokenizer.json and what else a gateway reads. */
  readonly folder: string;
  /** What nodes need: absolute paths by the names that the manifest has. */
  readonly paths: Readonly<Record<string, string>>;
  readonly quantisation: ManifestQuantisation;
  readonly hubUrl?: string | undefined;
}

/**
 * Hashes a model's files and reads what they say. `hash` gives a file's hashes. Rejects where a file can't be read or
 * says something impossible.
 */
export async function describeModel(
  { name, folder, paths, quantisation, hubUrl }: ServedFiles,
  hash: (path: string) => ReturnType<typeof hashFile> = hashFile,
): Promise<ServedModel> {
  const files: ManifestFile[] = [];
  for (const [file, path] of Object.entries(paths)) files.push({ name: file, ...(await hash(path)) });
  const manifest: Manifest = { name, files, pieceBytes: PIECE_BYTES, quantisation };
  const config = parseModelConfig(await readFile(join(folder, 'config.json'), 'utf8'), 'config.json');
  checkServed(config.architectures);
  const generation = await generationConfig(folder);
  const task = modelTask((await textOf(folder, MODULES_FILE)) !== undefined, config.architectures);
  const unread = {
    task,
    isEncoder: config.architectures.some((name) => Object.hasOwn(ENCODER_TASKS, name)),
    tiedHead: config.raw.tie_word_embeddings === true,
    textPart: textPartOf(config.architectures),
  };
  const pooling = task === 'embed' ? await readPooling((file) => textOf(folder, file), config.hiddenSize) : undefined;
  const vectors = task === 'generate' ? undefined : await vectorsOf(config, task, pooling, folder);
  const tensors = await tensorShapes(paths, (name) => staysUnread(name, unread));
  return {
    name,
    folder,
    tokenizer: new TokenizerBundle(folder),
    tokenizerHashes: await tokenizerHashes(folder),
    paths,
    manifest,
    manifestJson: canonicalJson(manifest),
    digest: await digestManifest(manifest),
    about: { config: config.raw, task, tensors: tensors && countTensors(tensors) },
    tensors,
    hubUrl,
    task,
    vectors,
    pooling,
    architectures: config.architectures,
    modelType: config.modelType,
    vocabSize: config.vocabSize,
    hiddenSize: config.hiddenSize,
    layers: config.layers,
    contextLength: vectors?.contextLength ?? config.contextLength,
    eosTokenIds: generation?.eosTokenIds ?? config.eosTokenIds,
    bosTokenId: generation?.bosTokenId ?? config.bosTokenId,
    padTokenId: generation?.padTokenId ?? config.padTokenId,
  };
}

async function vectorsOf(
  config: ModelConfig,
  task: ModelTask,
  pooling: PoolingConfig | undefined,
  folder: string,
): Promise<ServedVectors> {
  return servedVectors(config, task === 'classify', pooling, (await textOf(folder, 'tokenizer.json')) ?? '{}');
}

async function generationConfig(folder: string): Promise<GenerationConfig | undefined> {
  const name = 'generation_config.json';
  const text = await textOf(folder, name);
  return text === undefined ? undefined : parseGenerationConfig(text, name);
}

/** Undefined where the model has no such file. */
function textOf(folder: string, name: string): Promise<string | undefined> {
  return readFile(join(folder, name), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
}
