import type { NodeMessage, PageMessage } from './messages.ts';
import { Node } from './node.ts';

// The Web Worker's entry: the engine and every timer of the node live here, since a hidden window's are slowed.
const node = new Node((message: NodeMessage) => self.postMessage(message));

self.onmessage = (event: MessageEvent<PageMessage>) => {
  const message = event.data;
  switch (message.type) {
    case 'join':
      void node.join(message.join);
      break;
    case 'leave':
      node.leave();
      break;
    case 'pause':
      node.paused = message.paused;
      break;
    case 'share':
      node.gpuShare = message.share;
      break;
    case 'restart':
      node.restart();
      break;
    case 'hidden':
      node.hidden = message.hidden;
      break;
    case 'profile':
      node.profile();
      break;
  }
};
