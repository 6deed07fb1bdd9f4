import type { NodeMessage, PageMessage } from './messages.ts';
import { ModelShelf } from './model-shelf.ts';
import { Node } from './node.ts';
import { openBrowserStore } from './store/browser-store.ts';

// The Web Worker's entry: the engine and every timer of the node live here, since a hidden window's are slowed.
const post = (message: NodeMessage) => self.postMessage(message);
const shelf = new ModelShelf(post, openBrowserStore);
const node = new Node(post, shelf);

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
    case 'list-models':
      void shelf.tellModels();
      break;
    case 'delete-model':
      void shelf.delete(message.digest);
      break;
    case 'plan':
      void shelf.plan(message);
      break;
  }
};
