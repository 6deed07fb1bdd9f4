import type { StartGrammarWorker } from '../engine/grammar/grammar-messages.ts';

/** What starts grammar workers where the test runs: Web Workers in a browser, threads under Node. */
export async function testGrammarWorkers(): Promise<StartGrammarWorker> {
  if ('document' in globalThis || 'importScripts' in globalThis) {
    return (await import('../node/start-grammar-worker.ts')).startGrammarWorker;
  }
  // A name Vite can't follow keeps Node out of the browser's bundle.
  const name = './grammar-worker.node.ts';
  const threads = (await import(/* @vite-ignore */ name)) as { nodeGrammarWorkers(): Promise<StartGrammarWorker> };
  return threads.nodeGrammarWorkers();
}
