import { createHash } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { CheckpointError } from '../../checkpoint/checkpoint.ts';
import { parsePeftConfig } from '../../checkpoint/peft-config.ts';
import { openSafetensors } from '../../checkpoint/safetensors.ts';
import { invalid } from '../../contract/contract-error.ts';
import { checkFile } from '../model/check-file.ts';
import { withDiskSource } from '../model/disk-source.ts';
import { hashFile } from '../model/file-hashes.ts';
import { ModelError } from '../model/model-error.ts';
import type { SentFile } from '../send-file.ts';

const CONFIG = 'adapter_config.json';
const WEIGHTS = 'adapter_model.safetensors';
/** Of both files. */
const MAX_BYTES = 2 ** 30;
const MAX_CONFIG_BYTES = 2 ** 20;

/** A PEFT adapter as it lies on this disk. */
export interface AdapterFolder {
  /** SHA-256 of the files' own, hex. */
  readonly digest: string;
  /** `r` of its config. */
  readonly rank: number;
  readonly files: readonly SentFile[];
}

/**
 * Reads and hashes an adapter's folder. Rejects with ContractError naming `lora_path` where there is none that could be served;
 * `maxRank` is the most that any of its modules may have.
 */
export async function readAdapterFolder(path: string, maxRank: number): Promise<AdapterFolder> {
  const folder = resolve(path);
  try {
    for (const name of [CONFIG, WEIGHTS]) await checkFile(join(folder, name));
    // Before a byte is read: the config is read as a whole, and hashing what is too large takes as long as it is.
    const sizes = await Promise.all([CONFIG, WEIGHTS].map(async (name) => (await stat(join(folder, name))).size));
    const [configBytes = 0, weightBytes = 0] = sizes;
    if (configBytes > MAX_CONFIG_BYTES)
      throw invalid('lora_path', `must hold an ${CONFIG} of at most ${MAX_CONFIG_BYTES} bytes, got ${configBytes}.`);
    const bytes = configBytes + weightBytes;
    if (bytes > MAX_BYTES)
      throw invalid('lora_path', `must hold an adapter of at most ${MAX_BYTES} bytes, got ${bytes}.`);
    const { ownRank: rank } = parsePeftConfig(await readFile(join(folder, CONFIG), 'utf8'), CONFIG);
    const { tensors } = await withDiskSource(join(folder, WEIGHTS), openSafetensors);
    const ranks = [...tensors.values()]
      .filter(({ name }) => name.endsWith('.lora_A.weight'))
      .map(({ shape }) => shape[0]);
    // Also what the config gives single modules; where the two don't agree, nodes say so.
    const highest = ranks.reduce<number>((most, own = 0) => Math.max(most, own), 0);
    if (highest > maxRank)
      throw invalid('lora_path', `must hold an adapter of rank ${maxRank} at most (--max-lora-rank), got ${highest}.`);
    const files: SentFile[] = [];
    for (const name of [CONFIG, WEIGHTS]) {
      const file = join(folder, name);
      const { size, sha256 } = await hashFile(file);
      files.push({ name, path: file, size, sha256 });
    }
    const digest = createHash('sha256').update(files.map(({ sha256 }) => sha256).join('\n'));
    return { digest: digest.digest('hex'), rank, files };
  } catch (error) {
    const { code, syscall, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'EISDIR') {
      throw invalid('lora_path', `must be a folder on the relay's disk with ${CONFIG} and ${WEIGHTS}.`);
    }
    if (error instanceof CheckpointError || error instanceof ModelError || error instanceof RangeError)
      throw invalid('lora_path', `holds what is not served: ${message}.`);
    if (syscall !== undefined || code === 'ERR_INVALID_ARG_VALUE')
      throw invalid('lora_path', `can't be read: ${message}.`);
    throw error;
  }
}
