import { render } from 'preact';
import { takeLink } from './link.ts';
import { counters, join, state } from './node.ts';
import { NodeView } from './node-view.tsx';
import './style.css';
import { webgpuHelp } from './webgpu-help.ts';

declare global {
  interface Window {
    /** For tests and the curious: what the node's Web Worker counted last. */
    readonly shoal: { counters(): Promise<typeof counters.value> };
  }
}

Object.defineProperty(window, 'shoal', { value: { counters: () => Promise.resolve(counters.value) } });

document.documentElement.dataset.state = state.value;
render(<NodeView />, document.getElementById('app')!);

const help = webgpuHelp();
if (help) {
  document.documentElement.dataset.state = 'error';
  document.documentElement.dataset.error = help;
} else {
  const open = () => {
    if (takeLink().join) void join();
  };
  open();
  // A link that is opened where the page is open already loads nothing.
  addEventListener('hashchange', open);
}
