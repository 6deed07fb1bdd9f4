import { connect, createServer } from 'node:net';
import type { HostPort } from './values.ts';

/** A port of 127.0.0.1 that was free a moment ago. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}

/** Whether something accepts TCP connections there. */
export function accepts({ host, port }: HostPort, boundMs = 2_000): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    const end = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(boundMs, () => end(false));
    socket.on('connect', () => end(true));
    socket.on('error', () => end(false));
  });
}

/** Calls `check` until it gives something other than undefined, at most `boundMs` long. */
export async function poll<T>(
  check: () => Promise<T | undefined> | T | undefined,
  { boundMs, everyMs = 100 }: { boundMs: number; everyMs?: number },
): Promise<T | undefined> {
  const until = performance.now() + boundMs;
  for (;;) {
    const value = await check();
    if (value !== undefined) return value;
    if (performance.now() >= until) return undefined;
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}
