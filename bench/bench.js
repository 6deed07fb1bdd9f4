// `npm run bench`, `npm run bench:engine` and `npm run bench:kernels`: builds the benches for both runtimes and runs them; see README.md.
import { spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';
import { findNode22 } from '../bin/node22.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const node = findNode22();
if (node === undefined) throw new Error('the bench needs Node 22 or newer, and no package brought one');

// A folder of its own: two runs at once don't take each other's build away.
const scratch = join(root, '.cache', `bench-${process.pid}`);
const common = /** @type {const} */ ({ configFile: false, publicDir: false, logLevel: 'warn' });
try {
  await build({
    ...common,
    root: join(root, 'bench', 'browser'),
    worker: { format: 'es' },
    build: { outDir: join(scratch, 'page'), emptyOutDir: true, target: 'es2023', minify: false },
  });
  await build({
    ...common,
    root,
    build: {
      outDir: join(scratch, 'node'),
      emptyOutDir: true,
      target: 'node22',
      minify: false,
      ssr: 'bench/cli/main.ts',
    },
  });
  process.exitCode = await run(node, [join(scratch, 'node', 'main.js'), ...process.argv.slice(2)]);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}

/**
 * @param {string} program
 * @param {string[]} args
 * @returns {Promise<number>}
 */
function run(program, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd: root, stdio: 'inherit' });
    for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) process.on(signal, () => child.kill(signal));
    child.on('error', reject);
    child.on('exit', (status) => resolve(status ?? 1));
  });
}
