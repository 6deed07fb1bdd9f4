// A process that takes profiles, at moments that it is told: see browser-profile.node.test.ts.
import { BrowserProfile } from '../browser-profile.ts';

process.on('message', ({ parent, at }: { readonly parent: string; readonly at: number }) => {
  // Together with the others, to the millisecond.
  while (Date.now() < at) {}
  process.send!(BrowserProfile.take(parent)?.folder ?? 'none');
});
process.send!('ready');
