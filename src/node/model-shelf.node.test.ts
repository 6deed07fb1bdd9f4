import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { RelayBench } from '../relay/testing/relay-bench.ts';
import type { NodeMessage } from './messages.ts';
import { ModelShelf } from './model-shelf.ts';
import { StoreError } from './store/byte-file.ts';

vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const TOKEN = 'node-token-0123456789';

let dir: string;
let bench: RelayBench;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'shoal-shelf-'));
  writeFileSync(join(dir, 'tokens'), `node ${TOKEN}\nclient client-token-0123456789\n`);
  bench = await RelayBench.start({ tokenFile: join(dir, 'tokens') });
});
afterAll(async () => {
  await bench.end();
  rmSync(dir, { recursive: true });
});

const budgetOf = (maxRunning: number) => ({ maxRunning, kvBytes: 1e9 });

function shelf() {
  const told: Extract<NodeMessage, { type: 'plan' }>[] = [];
  const open = async () => {
    throw new StoreError('this browser keeps no files for pages');
  };
  return { told, shelf: new ModelShelf((message) => void (message.type === 'plan' && told.push(message)), open) };
}

test('plans share one session, and the last that was asked for is the one that is told', async () => {
  const exchanges = vi.spyOn(globalThis, 'fetch');
  try {
    const { told, shelf: one } = shelf();
    const ask = (running: number) => one.plan({ relayUrl: bench.webUrl, token: TOKEN, budget: budgetOf(running) });
    await Promise.all([ask(1), ask(8), ask(2)]);
    expect(told).toHaveLength(1);
    await ask(8);
    const [two, eight] = told.map(({ plan }) => plan!.memory!.kvBytes);
    expect(eight).toBe(4 * two!);
    expect(exchanges.mock.calls.filter(([url]) => String(url).endsWith('/session'))).toHaveLength(1);
  } finally {
    exchanges.mockRestore();
  }
});

test('why there is no plan is told in words', async () => {
  const { told, shelf: one } = shelf();
  await one.plan({ relayUrl: bench.webUrl, token: 'client-token-0123456789', budget: budgetOf(1) });
  await one.plan({ relayUrl: bench.webUrl, token: undefined, budget: budgetOf(1) });
  expect(told.map(({ problem }) => problem)).toEqual([
    'the relay does not let this page in: The client role may not do this.',
    'this relay asks for a token: open the link that you were given',
  ]);
});
