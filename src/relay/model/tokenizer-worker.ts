// A thread of the relay's own, which makes ids of texts: whatever one takes, no stream waits for it.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { readTokenizer, type Tokenizer } from '../../checkpoint/tokenizer.ts';

/** What it is started with. */
export interface TokenizerWorkerData {
  /** With tokenizer.json, and tokenizer_config.json where there is one. */
  readonly folder: string;
  /** Whether token types are asked for. */
  readonly types: boolean;
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
  | {
      readonly case: 'encoded';
      readonly ids: Int32Array<ArrayBuffer>;
      readonly typeIds: Int32Array<ArrayBuffer> | undefined;
    }
  /** The tokenizer threw. Its message may hold what is private to the request. */
  | { readonly case: 'failed'; readonly error: string };

async function read(folder: string): Promise<Tokenizer> {
  const config = await readFile(join(folder, 'tokenizer_config.json'), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '{}';
    throw error;
  });
  return readTokenizer(await readFile(join(folder, 'tokenizer.json'), 'utf8'), config, folder);
}

const port = parentPort;
if (!port) throw new Error('the tokenizer runs in a thread of its own');
const { folder, types } = workerData as TokenizerWorkerData;

function encode(tokenizer: Tokenizer, { text, pair }: TokenizerAsk): TokenizerAnswer {
  try {
    const encoded = tokenizer.encodeTyped(text, pair);
    const typeIds = types ? Int32Array.from(encoded.typeIds) : undefined;
    return { case: 'encoded', ids: Int32Array.from(encoded.ids), typeIds };
  } catch (error) {
    return { case: 'failed', error: error instanceof Error ? error.name : typeof error };
  }
}

function tell(answer: TokenizerAnswer): void {
  // Handed over: the relay's thread copies as little as can be.
  const { ids, typeIds } = answer.case === 'encoded' ? answer : {};
  port!.postMessage(
    answer,
    [ids, typeIds].flatMap((list) => list?.buffer ?? []),
  );
}

try {
  const tokenizer = await read(folder);
  port.on('message', (ask: TokenizerAsk) => tell(encode(tokenizer, ask)));
  tell({ case: 'ready' });
} catch (error) {
  tell({ case: 'unreadable', message: (error as Error).message });
}
