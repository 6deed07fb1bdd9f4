import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { canonicalJson, digestManifest, type Manifest, type ManifestFile } from '../checkpoint/manifest.ts';
import { parseGenerationConfig, parseModelConfig } from '../checkpoint/model-config.ts';

/** The one model that a relay serves, and what its files say of it. */
export interface ServedModel {
  /** As clients of the gateway name it. */
  readonly name: string;
  /** Absolute folder on this machine; the gateway reads the tokenizer there. */
  readonly folder: string;
  readonly manifest: Manifest;
  /** Exactly the text whose SHA-256 is `digest`. */
  readonly manifestJson: string;
  /** SHA-256 of the manifest, hex. */
  readonly digest: string;
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

const REQUIRED = ['config.json', 'tokenizer.json'];

/** Files a node needs, or the gateway's tokenizer does; anything else in the folder is not part of the model. */
const WANTED = [
  /^config\.json$/,
  /^generation_config\.json$/,
  /^tokenizer(_config)?\.json$/,
  /^special_tokens_map\.json$/,
  /^chat_template\.(json|jinja)$/,
  /\.safetensors$/,
  /\.safetensors\.index\.json$/,
];

/** Reads a model's folder and hashes its files. Rejects where a file is missing or says something impossible. */
export async function readServedModel(modelDir: string, name = basename(resolve(modelDir))): Promise<ServedModel> {
  const folder = resolve(modelDir);
  const names = (await readdir(folder)).filter((file) => WANTED.some((wanted) => wanted.test(file))).sort();
  for (const required of REQUIRED) {
    if (!names.includes(required)) throw new Error(`The model folder ${folder} has no ${required}.`);
  }
  if (!names.some((file) => file.endsWith('.safetensors'))) {
    throw new Error(`The model folder ${folder} has no .safetensors file.`);
  }
  const files: ManifestFile[] = [];
  for (const file of names) files.push(await describeFile(folder, file));
  const manifest: Manifest = { name, files, quantisation: 'none' };
  const config = parseModelConfig(await readFile(join(folder, 'config.json'), 'utf8'), 'config.json');
  const generation = names.includes('generation_config.json')
    ? parseGenerationConfig(await readFile(join(folder, 'generation_config.json'), 'utf8'), 'generation_config.json')
    : undefined;
  return {
    name,
    folder,
    manifest,
    manifestJson: canonicalJson(manifest),
    digest: await digestManifest(manifest),
    architectures: config.architectures,
    modelType: config.modelType,
    vocabSize: config.vocabSize,
    hiddenSize: config.hiddenSize,
    layers: Number.isSafeInteger(config.raw.num_hidden_layers) ? (config.raw.num_hidden_layers as number) : undefined,
    contextLength: config.contextLength,
    eosTokenIds: generation?.eosTokenIds ?? config.eosTokenIds,
    bosTokenId: generation?.bosTokenId ?? config.bosTokenId,
    padTokenId: generation?.padTokenId ?? config.padTokenId,
  };
}

async function describeFile(folder: string, name: string): Promise<ManifestFile> {
  const path = join(folder, name);
  const { size } = await stat(path);
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer);
  return { name, size, sha256: hash.digest('hex') };
}
