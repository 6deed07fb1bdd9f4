import { parentPort } from 'node:worker_threads';
import { serveGrammars } from '../engine/grammar/serve-grammars.ts';
import type { XGrammarLibrary } from '../engine/grammar/xgrammar.ts';

// The library finds its own address by `location`, and is a script: as a module it leaves its face in a global.
const scope = globalThis as { location?: { href: string }; xgrammar?: XGrammarLibrary };
const port = parentPort!;
serveGrammars(
  {
    post: (report, transfer) => port.postMessage(report, transfer),
    onCommand: (take) => port.on('message', take),
  },
  async () => {
    scope.location = { href: import.meta.url };
    await import('@mlc-ai/web-xgrammar');
    return scope.xgrammar!;
  },
);
