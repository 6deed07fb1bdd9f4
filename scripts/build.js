// Builds the page (dist/page) and the Node side (dist/node), when dist/ is missing or older than the
// sources. Used by bin/shoal.js, by the test launcher and as `npm run build`.
import { createHash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join, relative, sep } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('..', import.meta.url));

const SOURCES = [
  'src',
  'shaders',
  'proto',
  'public',
  'index.html',
  'package.json',
  'package-lock.json',
  'vite.config.ts',
  'vite.node.config.ts',
  'tsconfig.base.json',
  'tsconfig.page.json',
];
const BUILD_BOUND_MS = 180_000;

/**
 * Every file under `path` (or `path` itself), sorted, so that a hash over them depends on nothing else.
 * @param {string} path
 * @returns {string[]}
 */
function filesUnder(path) {
  if (!existsSync(path)) return [];
  /** @type {string[]} */
  const found = [];
  /** @param {string} folder */
  const walk = (folder) => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const full = join(folder, entry.name);
      if (entry.isDirectory()) walk(full);
      else if (entry.isFile()) found.push(full);
    }
  };
  if (!statSync(path).isDirectory()) return [path];
  walk(path);
  return found.sort();
}

/**
 * SHA-256 over names and contents.
 * @param {string} base
 * @param {string[]} files
 */
function hashFiles(base, files) {
  const hash = createHash('sha256');
  for (const file of files) {
    const content = readFileSync(file);
    hash.update(`${relative(base, file).split(sep).join('/')}\0${content.length}\0`);
    hash.update(content);
  }
  return hash.digest('hex');
}

/** Hash of all that the build reads; tests are no part of it. */
export function sourceStamp() {
  const files = SOURCES.flatMap((name) => filesUnder(join(root, name))).filter(
    (file) => !/\.test\.tsx?$/.test(file) && !file.includes(`${sep}testing${sep}`),
  );
  return hashFiles(root, files);
}

/** What the build in dist/ says of itself; undefined where there is none. */
export function readBuild() {
  try {
    /** @type {{packageVersion: string, pageHash: string, sources: string}} */
    const build = JSON.parse(readFileSync(join(root, 'dist', 'build.json'), 'utf8'));
    return build;
  } catch {
    return undefined;
  }
}

/**
 * Builds unless dist/ is current. Two processes never build at once: the second waits for the first.
 * @param {{force?: boolean, log?: (line: string) => void}} [options]
 */
export async function ensureBuilt({ force = false, log = () => {} } = {}) {
  const stamp = sourceStamp();
  if (!force && readBuild()?.sources === stamp) return;
  const release = await lock();
  try {
    if (!force && readBuild()?.sources === stamp) return;
    log('Building shoal …');
    const started = Date.now();
    await build(stamp);
    log(`Built in ${((Date.now() - started) / 1000).toFixed(1)} s.`);
  } finally {
    release();
  }
}

/** @param {string} stamp */
async function build(stamp) {
  const vite = await import('vite');
  const scratch = join(root, '.cache', `build-${process.pid}`);
  rmSync(scratch, { recursive: true, force: true });
  try {
    for (const [config, name] of [
      ['vite.config.ts', 'page'],
      ['vite.node.config.ts', 'node'],
    ]) {
      await vite.build({
        root,
        configFile: join(root, String(config)),
        logLevel: 'warn',
        build: { outDir: join(scratch, String(name)), emptyOutDir: true },
      });
    }
    const page = join(scratch, 'page');
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    const info = { packageVersion: version, pageHash: hashFiles(page, filesUnder(page)), sources: stamp };
    writeBuildInto(join(page, 'index.html'), info);
    writeFileSync(join(scratch, 'build.json'), `${JSON.stringify(info, null, 2)}\n`);
    rmSync(join(root, 'dist'), { recursive: true, force: true });
    renameSync(scratch, join(root, 'dist'));
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/**
 * Tells the page which build it is. Written after the hash, which can't contain itself.
 * @param {string} file
 * @param {{packageVersion: string, pageHash: string}} info
 */
function writeBuildInto(file, { packageVersion, pageHash }) {
  const html = readFileSync(file, 'utf8');
  const told = html.replace(/(<meta name="shoal-build" content=")"/, `$1${packageVersion} ${pageHash}"`);
  if (told === html) throw new Error(`${file} has no <meta name="shoal-build" content="" /> to write the build into`);
  writeFileSync(file, told);
}

/** Takes the build lock; a lock whose process is gone counts for nothing. */
async function lock() {
  const path = join(root, '.cache', 'build.lock');
  mkdirSync(join(root, '.cache'), { recursive: true });
  const until = Date.now() + BUILD_BOUND_MS;
  for (;;) {
    try {
      const file = openSync(path, 'wx');
      writeFileSync(file, String(process.pid));
      closeSync(file);
      return () => rmSync(path, { force: true });
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'EEXIST') throw error;
    }
    if (Date.now() > until) throw new Error(`another build holds ${path}; remove that file if none is running`);
    if (!holderLives(path)) rmSync(path, { force: true });
    else await sleep(100);
  }
}

/** @param {string} path */
function holderLives(path) {
  try {
    const pid = Number(readFileSync(path, 'utf8'));
    // A file just made may still be empty.
    if (pid === 0) return true;
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === 'EPERM';
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await ensureBuilt({ force: process.argv.includes('--force'), log: console.log });
}
