import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { hashFile } from './model/file-hashes.ts';

/** What a tokenizer and a chat template are made of, as SGLang's own server sends it: never weights. */
const FILES = new Set([
  'config.json',
  'generation_config.json',
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'vocab.json',
  'merges.txt',
  'chat_template.json',
  'preprocessor_config.json',
]);
/** Of these: what the model is, and not its tokenizer. */
const OF_THE_MODEL = new Set(['config.json', 'generation_config.json']);
const ENDINGS = ['.jinja', '.model', '.tiktoken'];

/** Names of a model folder's files of these, sorted. Rejects where the folder can't be read. */
export async function tokenizerFileNames(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  return entries
    .filter((entry) => !entry.isDirectory())
    .map(({ name }) => name)
    .filter((name) => FILES.has(name) || ENDINGS.some((ending) => name.endsWith(ending)))
    .sort();
}

/** SHA-256 of those that make ids of texts and prompts of chats, by name, hex. Rejects where the folder can't be read. */
export async function tokenizerHashes(folder: string): Promise<Readonly<Record<string, string>>> {
  const hashes: Record<string, string> = {};
  for (const name of await tokenizerFileNames(folder)) {
    if (!OF_THE_MODEL.has(name)) hashes[name] = (await hashFile(join(folder, name))).sha256;
  }
  return hashes;
}
