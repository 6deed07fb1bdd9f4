// What the files of deploy/ say of each other and of the relay; that they are right by themselves, e2e/deploy.test.ts shows.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const read = (name: string) => readFileSync(join(import.meta.dirname, '..', name), 'utf8');
const found = (name: string, pattern: RegExp) => {
  const match = pattern.exec(read(name));
  if (match === null) throw new Error(`${name} has no ${pattern}`);
  return match[1]!;
};
const settings = JSON.parse(read('deploy/relay.json')) as Record<string, string & string[]>;

test('the relay of the compose file lets its network in, and is given time to end', () => {
  expect(settings['allow-from']).toEqual([found('deploy/compose.yaml', /subnet: (\S+)/)]);
  const grace = Number(found('deploy/compose.yaml', /stop_grace_period: (\d+)s/));
  expect(grace).toBeGreaterThan(Number(/^(\d+)s$/.exec(settings['close-wait']!)![1]));
  expect(Number(found('deploy/shoal-relay.service', /TimeoutStopSec=(\d+)/))).toBe(grace);
  // By that name Prometheus asks.
  expect(settings.host).toContain(found('deploy/prometheus.yml', /targets: \[(\w+):8080\]/));
});

test('the image of the gateway has the version that "shoal gateway" has', () => {
  expect(found('src/cli/gateway-venv.ts', /(smg==[\d.]+)/)).toBe(found('deploy/Dockerfile', /(smg==[\d.]+)/));
});
