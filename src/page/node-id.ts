const KEY = 'shoal.node-id';

/**
 * This tab's node id: stable over its reloads, and its own. A duplicated tab copies the session storage, so a Web
 * Lock, held as long as the page lives, tells which of them keeps the id.
 */
export async function claimNodeId(): Promise<string> {
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
    void navigator.locks.request(`shoal-node-${id}`, { ifAvailable: true }, (lock) => {
      resolve(lock !== null);
      // Never settles: the lock goes with the page.
      return lock === null ? undefined : new Promise<void>(() => {});
    });
  });
}
