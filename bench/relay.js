// `npm run bench:relay`: what a relay costs, beside bare streams; see README.md.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { findNode22 } from '../bin/node22.js';

const node = findNode22();
if (node === undefined) throw new Error('the bench needs Node 22 or newer, and no package brought one');
const main = fileURLToPath(new URL('./relay/main.ts', import.meta.url));
// The generated code has enums, which are more than types to strip.
const args = ['--experimental-transform-types', '--no-warnings', main, ...process.argv.slice(2)];
const child = spawn(node, args, { stdio: 'inherit' });
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) process.on(signal, () => child.kill(signal));
child.on('exit', (status) => {
  process.exitCode = status ?? 1;
});
