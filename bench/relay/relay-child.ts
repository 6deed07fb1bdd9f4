import { writeFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { pino } from 'pino';
import { type Relay, startRelay } from '../../src/relay/relay.ts';
import { MODEL_DIR } from '../../src/relay/testing/relay-bench.ts';
import { serveParent } from './child.ts';

let relay: Relay | undefined;
const inspector = new Session();

serveParent({
  async start() {
    relay = await startRelay({
      model: MODEL_DIR,
      build: { packageVersion: '0.0.0-bench', pageHash: '0'.repeat(64) },
      grpcPort: 0,
      webPort: 0,
      maxQueued: 4_096,
      // The bench's nodes have no model to score others' ids with.
      auditShare: 0,
      logger: pino({ level: 'warn' }),
    });
    return { grpcPort: relay.grpcPort, webPort: relay.webPort, digest: relay.model.digest };
  },
  async beginProfile(): Promise<void> {
    inspector.connect();
    await inspector.post('Profiler.enable');
    await inspector.post('Profiler.start');
  },
  async endProfile(file: string): Promise<void> {
    const { profile } = await inspector.post('Profiler.stop');
    writeFileSync(file, JSON.stringify(profile));
    inspector.disconnect();
  },
});
