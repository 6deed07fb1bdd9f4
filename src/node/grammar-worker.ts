import * as library from '@mlc-ai/web-xgrammar';
import type { GrammarCommand } from '../engine/grammar/grammar-messages.ts';
import { serveGrammars } from '../engine/grammar/serve-grammars.ts';

// A Web Worker of the node's own: compiling may take long, or break the library.
serveGrammars(
  {
    post: (report, transfer) => self.postMessage(report, { transfer }),
    onCommand: (take) => {
      self.onmessage = (event: MessageEvent<GrammarCommand>) => take(event.data);
    },
  },
  async () => library,
);
