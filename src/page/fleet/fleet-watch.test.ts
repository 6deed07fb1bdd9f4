import { Code, ConnectError, createClient, createRouterTransport } from '@connectrpc/connect';
import { afterEach, expect, test, vi } from 'vitest';
import { FleetMonitor } from '../../contract/gen/fleet_monitor_pb.ts';
import { SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import { FleetWatch } from './fleet-watch.ts';

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

let watch: FleetWatch | undefined;
afterEach(() => watch?.stop());

/** A relay's answers; `gate` is asked before each, with the rpc's name. */
function open(gate: (rpc: string) => Promise<void> | void = () => {}) {
  const asked: string[] = [];
  let [atOnce, most] = [0, 0];
  const answer = async <T>(rpc: string, value: T): Promise<T> => {
    asked.push(rpc);
    most = Math.max(most, ++atOnce);
    try {
      await gate(rpc);
      await sleep(1);
      return value;
    } finally {
      atOnce--;
    }
  };
  const transport = createRouterTransport((router) => {
    router.service(SglangScheduler, { getLoads: () => answer('loads', { dpRankCount: 1 }) });
    router.service(FleetMonitor, {
      listNodes: () => answer('nodes', { nodes: [{ rank: 0 }] }),
      listRequests: () => answer('requests', { open: 2 }),
      getHistory: ({ after }) =>
        answer('history', { relayEpoch: 5n, model: 'm', points: [{ number: after + 1, atMs: 1 }] }),
    });
  });
  const clients = {
    scheduler: createClient(SglangScheduler, transport),
    monitor: createClient(FleetMonitor, transport),
  };
  watch = new FleetWatch(() => clients, { pollMs: 10, boundMs: 5_000, mostWaitMs: 40 });
  return { watch, asked, most: () => most };
}

const refusal = (code: Code) => {
  throw new ConnectError('no', code);
};

test('a poll asks for everything first, then for loads each time, and for one thing after the other', async () => {
  const { watch, asked, most } = open();
  watch.start();
  await vi.waitFor(() => expect(asked.filter((rpc) => rpc === 'history').length).toBe(2), 5_000);
  expect(asked.slice(0, 11)).toEqual([
    ...['loads', 'nodes', 'requests', 'history'],
    ...['loads', 'loads', 'nodes', 'requests', 'loads', 'loads', 'nodes'],
  ]);
  expect(most()).toBe(1);
  expect(watch.state.value.name).toBe('live');
  expect(watch.requests.value?.open).toBe(2);
  await vi.waitFor(() => expect(watch.columns.length).toBe(2));
  expect(watch.history.value).not.toHaveProperty('points');
});

test('what is stopped asks nothing more, keeps what it was told, and starts again', async () => {
  const { watch, asked } = open();
  watch.start();
  await vi.waitFor(() => expect(watch.state.value.name).toBe('live'));
  watch.stop(true);
  const before = asked.length;
  await sleep(60);
  expect(asked.length).toBeLessThanOrEqual(before + 1);
  const settled = asked.length;
  expect(watch.state.value.name).toBe('paused');
  expect(watch.loads.value?.dpRankCount).toBe(1);
  watch.start();
  // Live once the relay has answered, not before.
  expect(watch.state.value.name).toBe('loading');
  await vi.waitFor(() => expect(asked.length).toBeGreaterThan(settled));
  await vi.waitFor(() => expect(watch.state.value.name).toBe('live'));
});

test('an answer that comes after the stop is not shown', async () => {
  let go = () => {};
  const held = new Promise<void>((resolve) => {
    go = resolve;
  });
  const { watch } = open(() => held);
  watch.start();
  await sleep(10);
  watch.stop();
  go();
  await sleep(30);
  expect([watch.loads.value, watch.state.value.name]).toEqual([undefined, 'loading']);
});

test('a client sees loads; what is an operator’s is asked for once', async () => {
  const { watch, asked } = open((rpc) => (rpc === 'loads' ? undefined : refusal(Code.PermissionDenied)));
  watch.start();
  await vi.waitFor(() => expect(asked.filter((rpc) => rpc === 'loads').length).toBeGreaterThan(4));
  expect(watch.operator.value).toBe(false);
  expect(watch.state.value.name).toBe('live');
  expect(asked.filter((rpc) => rpc !== 'loads')).toEqual(['nodes']);
});

test('without a token that counts it stops, and begins anew with another', async () => {
  let known = false;
  const { watch, asked } = open(() => (known ? undefined : refusal(Code.Unauthenticated)));
  watch.start();
  await vi.waitFor(() => expect(watch.state.value).toMatchObject({ name: 'refused', code: Code.Unauthenticated }));
  await sleep(40);
  expect(asked).toEqual(['loads']);
  known = true;
  watch.restart();
  await vi.waitFor(() => expect(watch.state.value.name).toBe('live'));
});

test('a relay that does not answer is asked again, ever later, and what was told stays', async () => {
  let down = false;
  const { watch, asked } = open(() => (down ? refusal(Code.Unavailable) : undefined));
  watch.start();
  await vi.waitFor(() => expect(watch.state.value.name).toBe('live'));
  down = true;
  await vi.waitFor(() => expect(watch.state.value).toMatchObject({ name: 'unreachable', why: 'no' }));
  expect(watch.loads.value?.dpRankCount).toBe(1);
  const before = asked.length;
  await vi.waitFor(() => expect(asked.length).toBeGreaterThan(before + 2));
  down = false;
  await vi.waitFor(() => expect(watch.state.value.name).toBe('live'));
});
