import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { readTokenizer } from '../../checkpoint/tokenizer.ts';
import type { EncodeTexts } from '../../contract/normalise-embed.ts';
import type { ServedModel } from '../served-model.ts';

/** Makes ids of texts, where a request brings texts: the tokenizer is read when the first does. */
export class TextEncoder {
  private readonly model: Pick<ServedModel, 'folder' | 'vectors'>;
  private read: Promise<EncodeTexts> | undefined;

  constructor(model: Pick<ServedModel, 'folder' | 'vectors'>) {
    this.model = model;
  }

  /** Rejects where the tokenizer's files can't be read. */
  encoder(): Promise<EncodeTexts> {
    this.read ??= this.open().catch((error: unknown) => {
      // The next may fare better.
      this.read = undefined;
      throw error;
    });
    return this.read;
  }

  private async open(): Promise<EncodeTexts> {
    const { folder, vectors } = this.model;
    const config = await readFile(join(folder, 'tokenizer_config.json'), 'utf8').catch(
      (error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return '{}';
        throw error;
      },
    );
    const tokenizer = readTokenizer(await readFile(join(folder, 'tokenizer.json'), 'utf8'), config, folder);
    return async (text, pair) => {
      // Others' turn: a text may take a while.
      await setImmediate();
      const { ids, typeIds } = tokenizer.encodeTyped(text, pair);
      // Of one type, all are 0, whatever the tokenizer says.
      return { ids, typeIds: vectors && vectors.tokenTypes > 1 ? typeIds : undefined };
    };
  }
}
