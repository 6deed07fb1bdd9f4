import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Detokenizer } from '../../src/checkpoint/detokenizer.ts';
import { readTokenBytes } from '../../src/checkpoint/token-bytes.ts';
import { bundledModel } from '../../src/cli/paths.ts';

const file = join(bundledModel, 'tokenizer.json');
const tokens = readTokenBytes(readFileSync(file, 'utf8'), file);

/** The text of ids as a client sees it: without special tokens, and without the space in front of a first word. */
export function textOf(ids: readonly number[]): string {
  const detokenizer = new Detokenizer(tokens, { skipSpecialTokens: true });
  return ids.map((id) => detokenizer.push(id)).join('') + detokenizer.finish();
}
