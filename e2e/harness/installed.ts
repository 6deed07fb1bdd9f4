import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packageRoot } from '../../src/cli/paths.ts';

/** A copy of the built package in a folder of its own, as npm would install it: without sources. */
export interface InstalledShoal {
  readonly folder: string;
  readonly script: string;
  remove(): void;
}

export function installShoal(): InstalledShoal {
  const folder = mkdtempSync(join(tmpdir(), 'shoal-installed-'));
  for (const name of ['bin', 'dist', 'package.json']) {
    cpSync(join(packageRoot, name), join(folder, name), { recursive: true });
  }
  for (const name of ['node_modules', 'models']) symlinkSync(join(packageRoot, name), join(folder, name), 'junction');
  return {
    folder,
    script: join(folder, 'bin', 'shoal.js'),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Makes an installed shoal another build: its relay tells another hash, and its page does unless `page` is false. */
export function makeOtherBuild({ folder }: InstalledShoal, pageHash: string, { page } = { page: true }): void {
  const buildFile = join(folder, 'dist', 'build.json');
  const build = JSON.parse(readFileSync(buildFile, 'utf8')) as { pageHash: string };
  writeFileSync(buildFile, JSON.stringify({ ...build, pageHash }));
  if (!page) return;
  const indexFile = join(folder, 'dist', 'page', 'index.html');
  const html = readFileSync(indexFile, 'utf8');
  const other = html.replace(build.pageHash, pageHash);
  if (other === html) throw new Error(`${indexFile} does not tell its build`);
  writeFileSync(indexFile, other);
}
