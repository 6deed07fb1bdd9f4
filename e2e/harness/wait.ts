import { poll } from '../../src/cli/net.ts';

/** Waits until `check` gives something other than undefined or false; `what` names it where it does not come. */
export async function until<T>(
  what: string,
  boundMs: number,
  check: () => Promise<T | undefined | false> | T | undefined | false,
): Promise<T> {
  const value = await poll(
    async () => {
      const now = await check();
      return now === false ? undefined : now;
    },
    { boundMs, everyMs: 25 },
  );
  if (value === undefined) throw new Error(`${what}: not within ${boundMs} ms`);
  return value;
}

/** Rejects when `promise` takes longer. */
export async function within<T>(what: string, boundMs: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: not within ${boundMs} ms`)), boundMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
