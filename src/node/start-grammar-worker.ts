import type { GrammarReport, StartGrammarWorker } from '../engine/grammar/grammar-messages.ts';

/** A Web Worker inside the node's; its megabyte of script is loaded with the first one. */
export const startGrammarWorker: StartGrammarWorker = (onReport, onFailed) => {
  const worker = new Worker(new URL('./grammar-worker.ts', import.meta.url), { type: 'module' });
  worker.onmessage = (event: MessageEvent<GrammarReport>) => onReport(event.data);
  worker.onerror = (event) => {
    event.preventDefault();
    onFailed(event.message || 'its script can not be loaded');
  };
  return { post: (command) => worker.postMessage(command), terminate: () => worker.terminate() };
};
