import { readFileSync, unwatchFile, watchFile } from 'node:fs';
import { isRole, ROLES } from './roles.ts';
import type { RoleToken } from './token-set.ts';

/** How often a token file is looked at; polled, since a file that is replaced as a whole is no longer the one watched. */
const LOOK_MS = 1_000;

/** One token a line, after its role; `#` begins a comment. Throws RangeError naming file and line, and Node's error of reading. */
export function readTokenFile(path: string): RoleToken[] {
  const tokens: RoleToken[] = [];
  for (const [at, line] of readFileSync(path, 'utf8').split('\n').entries()) {
    const words = line
      .replace(/(^|\s)#.*$/, '')
      .trim()
      .split(/\s+/);
    if (words[0] === '') continue;
    const [role, token] = words;
    // What stands there may be a token: it must not come into a message.
    if (words.length !== 2 || !isRole(role!)) {
      throw new RangeError(`${path}, line ${at + 1}: it must be ${ROLES.join(', ')} and a token, or a comment.`);
    }
    tokens.push({ role, token: token! });
  }
  return tokens;
}

/** Calls `onChange` after each change of a file's contents or its coming back; returns what ends that. */
export function watchTokenFile(path: string, onChange: () => void): () => void {
  const look = (now: { mtimeMs: number; ino: number; size: number }, before: typeof now) => {
    if (now.mtimeMs !== before.mtimeMs || now.ino !== before.ino || now.size !== before.size) onChange();
  };
  watchFile(path, { interval: LOOK_MS, persistent: false }, look);
  return () => unwatchFile(path, look);
}
