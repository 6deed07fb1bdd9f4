// `npm run check`: format, lint, types, buf's lint, and that the generated code is current. All at once.
import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const require = createRequire(import.meta.url);

/**
 * Path of a package's program.
 * @param {string} name
 * @param {string} bin
 */
function program(name, bin) {
  const file = require.resolve(`${name}/package.json`);
  return join(dirname(file), require(file).bin[bin]);
}

/**
 * @param {string[]} args
 * @returns {Promise<string>} what it said, where it failed; else ''
 */
function run(args) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, args, {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
      // buf finds its local plugin on the path.
      env: {
        ...process.env,
        PATH: `${join(root, 'node_modules', '.bin')}${process.platform === 'win32' ? ';' : ':'}${process.env.PATH}`,
      },
    });
    let said = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (said += data));
    child.on('error', (error) => resolve(String(error)));
    child.on('close', (code) => resolve(code === 0 ? '' : said || `ended with code ${code}`));
  });
}

/** Generates into another folder and compares. */
async function generatedIsCurrent() {
  const scratch = mkdtempSync(join(root, 'node_modules', '.generated-'));
  try {
    const failure = await run([buf, 'generate', '--output', scratch]);
    if (failure !== '') return failure;
    const is = join(root, 'src', 'contract', 'gen');
    const should = join(scratch, 'src', 'contract', 'gen');
    const names = (/** @type {string} */ folder) =>
      readdirSync(folder, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath.slice(folder.length), entry.name))
        .sort();
    const stale = [...new Set([...names(is), ...names(should)])].filter((name) => {
      try {
        return readFileSync(join(is, name), 'utf8') !== readFileSync(join(should, name), 'utf8');
      } catch {
        return true;
      }
    });
    return stale.length === 0 ? '' : `not what proto/ gives: ${stale.join(', ')}; run: npm run generate`;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

const buf = program('@bufbuild/buf', 'buf');
const biome = program('@biomejs/biome', 'biome');
const tsc = program('typescript', 'tsc');

/** @type {[string, () => Promise<string>][]} */
const checks = [
  ['format and lint', () => run([biome, 'ci', '--colors=off', '.'])],
  ...['core', 'page', 'node'].map(
    (part) =>
      /** @type {[string, () => Promise<string>]} */ ([
        `types (${part})`,
        () => run([tsc, '--noEmit', '-p', `tsconfig.${part}.json`]),
      ]),
  ),
  ['proto lint', () => run([buf, 'lint'])],
  ['generated code', generatedIsCurrent],
];

const results = await Promise.all(
  checks.map(async ([name, check]) => {
    const started = performance.now();
    const failure = await check();
    return { name, failure, seconds: (performance.now() - started) / 1000 };
  }),
);
for (const { name, failure, seconds } of results) {
  console.log(`${failure === '' ? 'ok  ' : 'FAIL'} ${name} (${seconds.toFixed(1)} s)`);
  if (failure !== '') console.log(failure.trimEnd().replace(/^/gm, '     '));
}
process.exitCode = results.some(({ failure }) => failure !== '') ? 1 : 0;
