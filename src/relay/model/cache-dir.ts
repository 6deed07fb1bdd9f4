import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

/**
 * Where the relay keeps what it made or fetched, and may make or fetch again: `SHOAL_CACHE`, else `shoal` in the
 * system's folder for caches. `hub/` has models of the hub's, `gguf/` the tokenizers of .gguf files, `hashes/` hashes
 * of large files; `browsers/` is src/cli/browser-profile.ts's.
 */
export function cacheDir(env: NodeJS.ProcessEnv = process.env, platform: string = process.platform): string {
  if (env.SHOAL_CACHE) return resolve(env.SHOAL_CACHE);
  if (platform === 'win32') return join(env.LOCALAPPDATA || join(homedir(), 'AppData', 'Local'), 'shoal', 'Cache');
  if (platform === 'darwin') return join(homedir(), 'Library', 'Caches', 'shoal');
  return join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'shoal');
}
