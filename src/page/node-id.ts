const KEY = 'shoal.node-id';

let own: Promise<string> | undefined;

/**
 * This tab's node id: stable over its reloads, and its own. A duplicated tab copies the session storage, so a Web
 * Lock, held as long as the page lives, tells which of them keeps the id.
 */
export function claimNodeId(): Promise<string> {
  // Once a page: its own lock would tell a second call that the id is taken.
  own ??= claimStored();
  return own;
}

async function claimStored(): Promise<string> {
  const stored = sessionStorage.getItem(KEY);
  const id = stored !== null && (await claim(stored)) ? stored : await fresh();
  sessionStorage.setItem(KEY, id);
  return id;
}

async function fresh(): Promise<string> {
  const id = crypto.randomUUID();
  await claim(id);
  return id;
}

function claim(id: string): Promise<boolean> {
  return new Promise((resolve) => {
    navigator.locks
      .request(`shoal-node-${id}`, { ifAvailable: true }, (lock) => {
        resolve(lock !== null);
        // Never settles: the lock goes with the page.
        return lock === null ? undefined : new Promise<void>(() => {});
      })
      // A browser that is to keep nothing gives no locks, and has no id to copy either.
      .catch(() => resolve(true));
  });
}
