import type { TurnNews } from './download-turn.ts';
import { ModelStore } from './model-store.ts';
import { openOpfsFolder } from './opfs-folder.ts';
import type { TabChannel } from './store-locks.ts';
import { webLocks } from './web-locks.ts';
import { ANSWER_MS, within } from './within.ts';

/** The store of this browser. Rejects with StoreError where it keeps nothing for this page. */
export async function openBrowserStore(): Promise<ModelStore> {
  return new ModelStore({
    folder: await openOpfsFolder(),
    locks: webLocks,
    channel: (name) => new BroadcastChannel(name) as TabChannel<TurnNews>,
    async room() {
      const { quota, usage } = await within(navigator.storage.estimate(), ANSWER_MS);
      return { quota, usage };
    },
    now: Date.now,
  });
}
