import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { build } from 'vite';
import type { GrammarReport, StartGrammarWorker } from '../engine/grammar/grammar-messages.ts';

/** Followed by the id of the process that made it. */
const FOLDER = 'grammar-worker-';

let starting: Promise<StartGrammarWorker> | undefined;

/** Grammar workers as threads of Node, for tests and benches: what a page has in a nested Web Worker. */
export function nodeGrammarWorkers(): Promise<StartGrammarWorker> {
  starting ??= buildEntry();
  return starting;
}

async function buildEntry(): Promise<StartGrammarWorker> {
  const root = process.cwd();
  const outDir = join(root, '.cache', `${FOLDER}${process.pid}`);
  mkdirSync(outDir, { recursive: true });
  removeStale(join(root, '.cache'));
  process.on('exit', () => rmSync(outDir, { recursive: true, force: true }));
  await build({
    root,
    configFile: false,
    publicDir: false,
    logLevel: 'warn',
    build: {
      outDir,
      emptyOutDir: true,
      target: 'node20',
      minify: false,
      ssr: 'src/testing/grammar-worker-entry.node.ts',
      rolldownOptions: { output: { entryFileNames: 'entry.js' } },
    },
  });
  return (onReport, onFailed) => {
    const worker = new Worker(join(outDir, 'entry.js'));
    worker.on('message', (report: GrammarReport) => onReport(report));
    worker.on('error', (error) => onFailed(error.message));
    // A test that forgets one still ends.
    worker.unref();
    return { post: (command) => worker.postMessage(command), terminate: () => void worker.terminate() };
  };
}

/** Removes what processes left that were killed. */
function removeStale(folder: string): void {
  for (const name of readdirSync(folder)) {
    if (!name.startsWith(FOLDER)) continue;
    try {
      process.kill(Number(name.slice(FOLDER.length)), 0);
    } catch (error) {
      // Not ours to ask about, but there.
      if ((error as NodeJS.ErrnoException).code === 'EPERM') continue;
      rmSync(join(folder, name), { recursive: true, force: true });
    }
  }
}
