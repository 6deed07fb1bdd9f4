// A thread of the relay's own, which makes ids of texts: whatever one takes, no stream waits for it.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { readTokenizer, type Tokenizer } from '../../checkpoint/tokenizer.ts';

/** What it is started with. */
export interface TokenizerWorkerData {
  /** With tokenizer.json, and tokenizer_config.json where there is one. */
  readonly folder: string;
}

/** One at a time; answered before the next is sent. */
export interface TokenizerAsk {
  readonly text: string;
  readonly pair: string | undefined;
}

/** The first tells whether the files could be read, each later one what became of a text. */
export type TokenizerAnswer =
  | { readonly case: 'ready' }
  | { readonly case: 'unreadable'; readonly message: string }
  | { readonly case: 'encoded'; readonly ids: readonly number[]; readonly typeIds: readonly number[] }
  /** The tokenizer threw. Its message may hold what is private to the request. */
  | { readonly case: 'failed'; readonly error: string };

async function read(folder: string): Promise<Tokenizer> {
  const config = await readFile(join(folder, 'tokenizer_config.json'), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '{}';
    throw error;
  });
  return readTokenizer(await readFile(join(folder, 'tokenizer.json'), 'utf8'), config, folder);
}

function encode(tokenizer: Tokenizer, { text, pair }: TokenizerAsk): TokenizerAnswer {
  try {
    return { case: 'encoded', ...tokenizer.encodeTyped(text, pair) };
  } catch (error) {
    return { case: 'failed', error: error instanceof Error ? error.name : typeof error };
  }
}

const port = parentPort;
if (!port) throw new Error('the tokenizer runs in a thread of its own');
const tell = (answer: TokenizerAnswer) => port.postMessage(answer);
try {
  const tokenizer = await read((workerData as TokenizerWorkerData).folder);
  port.on('message', (ask: TokenizerAsk) => tell(encode(tokenizer, ask)));
  tell({ case: 'ready' });
} catch (error) {
  tell({ case: 'unreadable', message: (error as Error).message });
}
