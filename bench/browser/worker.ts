import { ModelShelf } from '../../src/node/model-shelf.ts';
import { openBrowserStore } from '../../src/node/store/browser-store.ts';
import type { BenchReport } from '../core/report.ts';
import { runRequest } from '../core/run-request.ts';
import type { AnyRequest } from '../core/setting.ts';
import { startGrammarWorker } from './start-grammar-worker.ts';

type Message =
  | { readonly type: 'log'; readonly text: string }
  | { readonly type: 'done'; readonly report: BenchReport }
  | { readonly type: 'failed'; readonly message: string };

/** The browser's store, as a page has it. */
const shelf = new ModelShelf(() => {}, openBrowserStore);
const LOAD_MS = 120_000;

/** The Web Worker's global scope, as far as it is used. */
const scope = globalThis as unknown as {
  readonly navigator: { readonly gpu?: GPU };
  onmessage: (event: { readonly data: AnyRequest }) => void;
  postMessage(message: Message): void;
};

scope.onmessage = async ({ data }) => {
  try {
    const report = await runRequest(data, {
      openGpu: async () => scope.navigator.gpu ?? Promise.reject(new Error('this browser has no WebGPU')),
      readFile: async (path) => new Uint8Array(await (await fetch(`/${path}`)).arrayBuffer()),
      startGrammarWorker: async () => startGrammarWorker,
      loadFiles: (url, served, load) =>
        shelf.load(
          served,
          { relayUrl: url, signal: AbortSignal.timeout(LOAD_MS), ask: fetch, onTrouble: () => {} },
          load,
        ),
      log: (text) => scope.postMessage({ type: 'log', text }),
    });
    scope.postMessage({ type: 'done', report });
  } catch (error) {
    scope.postMessage({
      type: 'failed',
      message: error instanceof Error ? (error.stack ?? error.message) : String(error),
    });
  }
};
