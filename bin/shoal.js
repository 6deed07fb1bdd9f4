#!/usr/bin/env node
// The `shoal` command: builds what is missing or stale, then runs dist/node on a suitable Node.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { findNode22 } from './node22.js';

const self = fileURLToPath(import.meta.url);
const entry = new URL('../dist/node/shoal.js', import.meta.url);
const buildScript = new URL('../scripts/build.js', import.meta.url);

const [major, minor] = process.versions.node.split('.').map(Number);
if (Number(major) < 20) {
  console.error(`shoal needs Node 20 or newer; this is ${major}.${minor}.`);
  process.exit(1);
}

const node = findNode22();
if (node !== undefined && node !== process.execPath) {
  await runOn(node);
} else {
  // An installed package has no sources and is always current; the test launcher has built.
  if (existsSync(buildScript) && process.env.SHOAL_BUILT !== '1') {
    try {
      const { ensureBuilt } = await import(buildScript.href);
      await ensureBuilt({ log: (/** @type {string} */ line) => console.error(line) });
    } catch (error) {
      console.error(`shoal could not be built: ${error instanceof Error ? error.message : error}`);
      process.exit(1);
    }
  }
  const { main } = await import(entry.href);
  await main(process.argv.slice(2));
}

/**
 * Runs this command again on another Node, as if it were this process. The child ends when this process dies:
 * it sees the IPC channel close.
 * @param {string} binary
 */
async function runOn(binary) {
  const child = spawn(binary, [self, ...process.argv.slice(2)], {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, SHOAL_PARENT: String(process.pid) },
  });
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
    process.on(signal, () => child.kill(signal));
  }
  child.on('error', (error) => {
    console.error(`shoal could not start ${binary}: ${error.message}`);
    process.exit(1);
  });
  child.on('exit', (code, signal) => {
    if (signal !== null) process.exit(128 + (signal === 'SIGINT' ? 2 : 15));
    process.exit(code ?? 1);
  });
}
