import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Root of the package: two folders up both from src/cli and from dist/node. */
export const packageRoot = fileURLToPath(new URL('../..', import.meta.url));
export const bundledModel = join(packageRoot, 'models', 'stories260K');
export const pageDir = join(packageRoot, 'dist', 'page');

/** What the relay and the page say of their build. */
export interface BuildInfo {
  readonly packageVersion: string;
  /** SHA-256 over the built page's files, hex. */
  readonly pageHash: string;
}

export function readBuildInfo(): BuildInfo {
  const { packageVersion, pageHash } = JSON.parse(readFileSync(join(packageRoot, 'dist', 'build.json'), 'utf8'));
  return { packageVersion, pageHash };
}
