import { setTimeout as sleep } from 'node:timers/promises';
import { BenchNode, type BenchNodeOptions } from './bench-node.ts';
import { serveParent } from './child.ts';

const ATTACH_EVERY_MS = 25;

const births: BenchNodeOptions['births'] = new Map();
const nodes: BenchNode[] = [];

serveParent({
  async attach({ count, ...relay }: { count: number; webPort: number; digest: string }): Promise<void> {
    for (let id = 0; id < count; id++) {
      const node = new BenchNode({ ...relay, id, births });
      nodes.push(node);
      await node.attach();
      // The relay's pings to all would go out together else.
      await sleep(ATTACH_EVERY_MS);
    }
  },
  pace(stepMs: number | undefined): void {
    births.clear();
    for (const node of nodes) node.pace(stepMs);
  },
  births: () => births,
});
