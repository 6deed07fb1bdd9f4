import { pino } from 'pino';
import { startRelay } from '../relay.ts';

/**
 * A relay in a process of its own: what hangs or kills it can't hide in the test's process, and its event loop is
 * measured apart from the clients'. Options come as one JSON argument.
 */
const relay = await startRelay({
  logger: pino({ level: 'silent' }),
  auditShare: 0,
  ...JSON.parse(process.argv[2] ?? '{}'),
});

// A turn counts by the time this thread computed in it: on a busy machine it may wait for a core much longer.
let longestMs = 0;
let lastCpu = cpuMs();
let lastWall = performance.now();
setInterval(() => {
  const [cpu, wall] = [cpuMs(), performance.now()];
  longestMs = Math.max(longestMs, Math.min(cpu - lastCpu, wall - lastWall));
  [lastCpu, lastWall] = [cpu, wall];
}, 2);

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

process.on('message', (message) => {
  if (message === 'longest stall') {
    process.send?.({ stallMs: longestMs, rssMiB: process.memoryUsage().rss / 2 ** 20 });
    longestMs = 0;
  } else if (typeof message === 'number') {
    // Stands still on purpose: the meter has a test too.
    const end = cpuMs() + message;
    while (cpuMs() < end);
    setTimeout(() => process.send?.('stalled'), 10);
  }
});
process.on('disconnect', () => process.exit(0));
process.send?.({ grpcPort: relay.grpcPort, webPort: relay.webPort, digest: relay.model.digest });
