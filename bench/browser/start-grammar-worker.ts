import type { GrammarCommand, GrammarReport, StartGrammarWorker } from '../../src/engine/grammar/grammar-messages.ts';

/** A Web Worker, as far as it is used: these files are checked as Node's. */
declare const Worker: new (
  url: URL,
  options: { readonly type: 'module' },
) => {
  onmessage: (event: { readonly data: GrammarReport }) => void;
  onerror: (event: { readonly message?: string }) => void;
  postMessage(command: GrammarCommand): void;
  terminate(): void;
};

/** The page's own grammar worker. */
export const startGrammarWorker: StartGrammarWorker = (onReport, onFailed) => {
  const worker = new Worker(new URL('../../src/node/grammar-worker.ts', import.meta.url), { type: 'module' });
  worker.onmessage = ({ data }) => onReport(data);
  worker.onerror = ({ message }) => onFailed(message || 'its script can not be loaded');
  return { post: (command) => worker.postMessage(command), terminate: () => worker.terminate() };
};
