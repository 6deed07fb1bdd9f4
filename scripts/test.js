// `npm test`: builds, finds or installs a browser, prepares the gateways, and runs all tests.
//
//   --long            the long tier too
//   --gpu-in-browser  kernel tests in the browser instead of Dawn under Node
//   anything else goes to vitest, such as `--project unit` or a file name
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findNode22 } from '../bin/node22.js';
import { ensureBuilt, root } from './build.js';
import { dawnEnvironment } from './dawn-environment.js';
import { lanesOf, runLanes } from './lanes.js';

const REQUIRED = process.env.CI === 'true' || process.env.SHOAL_REQUIRE_GATEWAY === '1';
const log = (/** @type {string} */ line) => console.log(line);
// Installers have process groups of their own: a Ctrl-C does not reach them by itself.
const stop = new AbortController();
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
  process.on(signal, () => stop.abort(new Error(`stopped by ${signal}`)));
}

const own = ['--long', '--gpu-in-browser'];
const passed = process.argv.slice(2).filter((arg) => !own.includes(arg));
const long = process.argv.includes('--long');
const projects = passed.flatMap((arg, i) =>
  arg === '--project' ? [passed[i + 1] ?? ''] : arg.startsWith('--project=') ? [arg.slice(10)] : [],
);
/** @param {string} name */
const runs = (name) => projects.length === 0 || projects.some((project) => project.includes('*') || project === name);
const gpu = runs('gpu') || runs('gpu-default-limits');

/** @type {NodeJS.ProcessEnv} */
const env = { ...process.env, ...(long ? { SHOAL_LONG: '1' } : {}) };

try {
  process.exitCode = await main();
} catch (error) {
  console.error(error instanceof Error && error.name === 'CliError' ? `error: ${error.message}` : error);
  console.log('0 passed, 1 failed');
  process.exitCode = 1;
}

async function main() {
  // The relay needs Node 22; the tests run it in their own process too.
  const node = findNode22();
  if (node === undefined) throw new Error('the tests need Node 22 or newer, and no package brought one');
  await ensureBuilt({ log });
  // The commands that the tests start need not look again.
  env.SHOAL_BUILT = '1';
  const tools = await import(new URL('../dist/node/tools.js', import.meta.url).href);

  if (gpu || runs('e2e') || runs('chaos') || runs('fleet')) {
    env.SHOAL_BROWSER = await tools.findOrInstallBrowser(log, stop.signal);
    log(`Browser: ${env.SHOAL_BROWSER}`);
  }
  if (gpu) {
    const dawn = process.argv.includes('--gpu-in-browser') ? undefined : workingDawn(node);
    if (dawn) Object.assign(env, dawn);
    env.SHOAL_GPU_TESTS = dawn ? 'node' : 'browser';
    log(dawn ? 'Kernel tests: Dawn under Node' : 'Kernel tests: in the browser');
  }
  if (runs('e2e')) await prepareGateways(tools);

  const require = createRequire(import.meta.url);
  const vitest = join(dirname(require.resolve('vitest/package.json')), 'vitest.mjs');
  // What was asked for by name runs as vitest would run it.
  const lanes =
    passed.length > 0 ? [passed] : lanesOf(long).map((names) => names.flatMap((project) => ['--project', project]));
  const summaries = lanes.map((_, lane) => join(root, '.cache', `test-summary-${process.pid}-${lane}.json`));
  mkdirSync(join(root, '.cache'), { recursive: true });
  stop.signal.throwIfAborted();
  const codes = await runLanes(
    node,
    lanes.map((args, lane) => ({
      args: [vitest, 'run', ...args],
      env: { ...env, SHOAL_SUMMARY: summaries[lane] },
    })),
    { cwd: root, signal: stop.signal },
  );

  const count = { passed: 0, failed: 0, skipped: 0 };
  for (const [lane, file] of summaries.entries()) {
    const own = { passed: 0, failed: 0, skipped: 0 };
    if (existsSync(file)) Object.assign(own, JSON.parse(readFileSync(file, 'utf8')));
    rmSync(file, { force: true });
    // A run that failed without a failed test (none found, a crash) is a failure all the same.
    if (codes[lane] !== 0 && own.failed === 0) own.failed = 1;
    for (const key of /** @type {const} */ (['passed', 'failed', 'skipped'])) count[key] += own[key];
  }
  console.log(`${count.passed} passed, ${count.failed} failed${count.skipped > 0 ? `, ${count.skipped} skipped` : ''}`);
  return count.failed > 0 ? 1 : 0;
}

/**
 * The variables with which npm's `webgpu` (Dawn) finds an adapter under Node; undefined where it does not. They must
 * be set before Node starts: on Linux the loader of Vulkan and SwiftShader come from the browser's folder.
 * @param {string} node
 * @returns {Record<string, string> | undefined}
 */
function workingDawn(node) {
  const variables = dawnEnvironment(String(env.SHOAL_BROWSER));
  if (variables === undefined) return undefined;
  const probe = `import('webgpu')
    .then(({ create }) => create([]).requestAdapter())
    .then((adapter) => process.exit(adapter ? 0 : 1), () => process.exit(1));`;
  const { status } = spawnSync(node, ['-e', probe], {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    env: { ...env, ...variables },
    stdio: 'ignore',
    timeout: 30_000,
  });
  return status === 0 ? variables : undefined;
}

/**
 * Installs the real gateways; where that cannot be, their tests are skipped with the reason, but never in CI.
 * @param {any} tools
 */
async function prepareGateways(tools) {
  let reason = await tools.missingForGateway(stop.signal);
  if (reason === undefined) {
    try {
      await Promise.all([1, 2].map((generation) => tools.ensureGatewayVenv(generation, log, stop.signal)));
      tools.ensureTiktokenFolder();
      return;
    } catch (error) {
      stop.signal.throwIfAborted();
      reason = tools.messageOf(error);
    }
  }
  if (REQUIRED) throw new Error(`the gateway tests must run here, and cannot: ${reason}`);
  log(`The gateway tests are skipped: ${reason}`);
  env.SHOAL_SKIP_GATEWAY = reason;
}
