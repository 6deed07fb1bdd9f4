import { join } from 'node:path';
import { openGguf } from '../../checkpoint/open-gguf.ts';
import { poolingFiles } from '../../checkpoint/sentence-transformers.ts';
import { withDiskSource } from './disk-source.ts';
import { replaceFile } from './replace-file.ts';

/**
 * Writes what a .gguf says beside its weights as the files of a model folder, into `folder`, whose name should follow
 * from the file's hash: gateways read the tokenizer and its chat template there. Written anew at each start, so that
 * they are this version's. Rejects with CheckpointError naming file, key or tensor, and reason.
 */
export async function writeGgufFolder(path: string, folder: string): Promise<void> {
  const { config, configJson, pooling, tokenizerJson, tokenizerConfigJson } = await withDiskSource(path, openGguf);
  const { eosTokenIds, bosTokenId, padTokenId } = config;
  const generation = {
    ...(bosTokenId === undefined ? {} : { bos_token_id: bosTokenId }),
    eos_token_id: eosTokenIds,
    ...(padTokenId === undefined ? {} : { pad_token_id: padTokenId }),
  };
  await replaceFile(join(folder, 'config.json'), configJson);
  await replaceFile(join(folder, 'generation_config.json'), JSON.stringify(generation));
  await replaceFile(join(folder, 'tokenizer.json'), tokenizerJson());
  await replaceFile(join(folder, 'tokenizer_config.json'), tokenizerConfigJson());
  for (const [name, text] of pooling ? poolingFiles(pooling, config.hiddenSize) : []) {
    await replaceFile(join(folder, name), text);
  }
}
