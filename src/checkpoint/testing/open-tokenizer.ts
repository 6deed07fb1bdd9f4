import { bytesSource } from '../byte-source.ts';
import { readGguf } from '../gguf.ts';
import { type GgufTokenizer, ggufTokenizer } from '../gguf-tokenizer.ts';
import { readTokenizer, type Tokenizer } from '../tokenizer.ts';
import { type Written, writeGguf } from './write-gguf.ts';

/** Keys below tokenizer.ggml, or below tokenizer where they start with a dot. */
export type TokenizerMetadata = Readonly<Record<string, Written | undefined>>;

/** The tokenizer of a file that has nothing else. */
export async function openTokenizer(metadata: TokenizerMetadata): Promise<GgufTokenizer> {
  const pairs = Object.entries(metadata).flatMap(([key, value]): [string, Written][] =>
    value === undefined ? [] : [[key.startsWith('.') ? `tokenizer${key}` : `tokenizer.ggml.${key}`, value]],
  );
  return ggufTokenizer(await readGguf(bytesSource('m.gguf', writeGguf({ metadata: pairs }))));
}

/** It, ready to encode. */
export function tokenizerOf({ tokenizerJson, tokenizerConfigJson }: GgufTokenizer): Tokenizer {
  return readTokenizer(tokenizerJson(), tokenizerConfigJson(), 'm.gguf');
}
