// Before all others.
import './allow-no-storage.ts';
import { render } from 'preact';
import './style/tokens.css';
import './style/base.css';
import './style/controls.css';
import './style/surfaces.css';
import './style/shell.css';
import { takeLink } from './link.ts';
import { counters, join, state } from './node.ts';
import { App } from './shell/app.tsx';
import { webgpuHelp } from './webgpu-help.ts';

declare global {
  interface Window {
    /** For tests and the curious: what the node's Web Worker counted last. */
    readonly shoal: { counters(): Promise<typeof counters.value> };
  }
}

Object.defineProperty(window, 'shoal', { value: { counters: () => Promise.resolve(counters.value) } });

document.documentElement.dataset.state = state.value;
// Before any view asks the relay: the link may bring the token for it.
const link = takeLink();
render(<App />, document.getElementById('app')!);

const help = webgpuHelp();
if (help) {
  document.documentElement.dataset.state = 'error';
  document.documentElement.dataset.error = help;
} else if (link.join) void join();
// A link that is opened where the page is open already loads nothing.
addEventListener('hashchange', () => {
  if (takeLink().join && !help) void join();
});
