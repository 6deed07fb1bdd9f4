import { BenchNode, type BenchNodeOptions } from './bench-node.ts';
import { serveParent } from './child.ts';

const births: BenchNodeOptions['births'] = new Map();
const nodes: BenchNode[] = [];

serveParent({
  async attach({ count, ...relay }: { count: number; webPort: number; digest: string }): Promise<void> {
    for (let id = 0; id < count; id++) nodes.push(new BenchNode({ ...relay, id, births }));
    await Promise.all(nodes.map((node) => node.attach()));
  },
  pace(stepMs: number | undefined): void {
    births.clear();
    for (const node of nodes) node.pace(stepMs);
  },
  births: () => births,
});
