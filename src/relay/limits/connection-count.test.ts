import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ConnectionCount } from './connection-count.ts';

const BOUNDS = { ofHost: 3, most: 12, reserved: 4 };

class FakeSocket extends EventEmitter {
  readonly remoteAddress: string | undefined;
  constructor(remoteAddress: string | undefined) {
    super();
    this.remoteAddress = remoteAddress;
  }
  destroy(): void {
    this.emit('close');
  }
}

const socket = (address: string | undefined) => new FakeSocket(address) as unknown as Socket;

function takeMany(connections: ConnectionCount, address: (at: number) => string, count: number): Socket[] {
  const all = Array.from({ length: count }, (_, at) => socket(address(at)));
  return all.filter((one) => connections.take(one));
}

test('a host has so many, and one that closes makes room', () => {
  const connections = new ConnectionCount(BOUNDS);
  const open = takeMany(connections, () => '10.0.0.1', 9);
  expect(open.length).toBe(3);
  expect(takeMany(connections, () => '::ffff:10.0.0.1', 1)).toEqual([]);
  expect(takeMany(connections, () => '10.0.0.2', 9).length).toBe(3);
  open[0]!.destroy();
  expect(takeMany(connections, () => '10.0.0.1', 9).length).toBe(1);
  expect(connections.take(socket(undefined))).toBe(false);
});

test('this machine leaves room to others, and others to this machine', () => {
  const flooded = new ConnectionCount(BOUNDS);
  expect(takeMany(flooded, (at) => (at % 2 ? '127.0.0.1' : '::1'), 100).length).toBe(8);
  expect(takeMany(flooded, (at) => `10.0.0.${at}`, 100).length).toBe(4);
  const besieged = new ConnectionCount(BOUNDS);
  expect(takeMany(besieged, (at) => `10.0.0.${at}`, 100).length).toBe(8);
  expect(takeMany(besieged, () => '127.0.0.1', 100).length).toBe(4);
  besieged.destroyAll();
  expect(takeMany(besieged, () => '127.0.0.1', 100).length).toBe(8);
});

test('whoever comes and goes, no bound is passed, and nobody is counted who has gone', () => {
  const address = fc.constantFrom('127.0.0.1', '::1', '10.0.0.1', '10.0.0.2', '2001:db8::1', '2001:db8::2');
  fc.assert(
    fc.property(fc.array(fc.tuple(address, fc.boolean(), fc.nat(40)), { maxLength: 80 }), (steps) => {
      const connections = new ConnectionCount(BOUNDS);
      const open: Socket[] = [];
      for (const [from, comes, which] of steps) {
        const one = socket(from);
        if (comes && connections.take(one)) open.push(one);
        else if (!comes && open.length > 0) open.splice(which % open.length, 1)[0]!.destroy();
        const local = open.filter(({ remoteAddress }) => /^(?:127|::1)/.test(remoteAddress!)).length;
        expect(local).toBeLessThanOrEqual(8);
        expect(open.length - local).toBeLessThanOrEqual(8);
      }
      for (const one of open) one.destroy();
      expect(takeMany(connections, () => '127.0.0.1', 20).length).toBe(8);
    }),
  );
});
