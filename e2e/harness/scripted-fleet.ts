import { setTimeout as sleep } from 'node:timers/promises';
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { NodeLoadSchema } from '../../src/contract/gen/node_relay_pb.ts';
import { openModel } from '../../src/relay/model/open-model.ts';
import { sessionFor } from '../../src/relay/testing/bearer.ts';
import { MODEL_DIR } from '../../src/relay/testing/relay-bench.ts';
import { ScriptedNode } from '../../src/relay/testing/scripted-node.ts';
import { PROMPT_IDS } from './golden.ts';
import type { TestRelay } from './relay.ts';
import { collect, greedyRequest, schedulerClient } from './scheduler.ts';

const ADAPTERS = [
  { vendor: 'google', architecture: 'swiftshader', description: '', fallback: true },
  { vendor: 'nvidia', architecture: 'ampere', description: '', fallback: false },
  { vendor: 'apple', architecture: 'metal-3', description: '', fallback: false },
] as const;

const POOL_TOKENS = 4_096;

/** What the node at this place tells of itself: every seventh tells nothing. */
export function loadAt(at: number): MessageInitShape<typeof NodeLoadSchema> | undefined {
  if (at % 7 === 6) return undefined;
  return {
    ...{ usedTokens: (31 * at) % POOL_TOKENS, genThroughput: 10 + at, cacheHitRate: (at % 10) / 10 },
    ...{ weightBytes: 1_000_000n, kvBytes: 2_000_000n, gpuBytes: 4_000_000n, hidden: at % 5 === 3 },
  };
}

/** Nodes that speak the real protocol, and make tokens without a model. */
export class ScriptedFleet {
  readonly nodes: readonly ScriptedNode[];
  /** Answers that came to their end. */
  served = 0;
  private stopped = false;
  private readonly loops: Promise<void>[] = [];

  private constructor(nodes: readonly ScriptedNode[]) {
    this.nodes = nodes;
  }

  /** `token`: of nodes, where the relay asks for one. */
  static async open({ webUrl }: TestRelay, count: number, stepMs: number, token?: string): Promise<ScriptedFleet> {
    const { digest: modelDigest } = await openModel(MODEL_DIR);
    const webPort = Number(new URL(webUrl).port);
    const nodes: ScriptedNode[] = [];
    for (let at = 0; at < count; at++) {
      const adapter = { $typeName: 'shoal.relay.v1.AdapterInfo', ...ADAPTERS[at % ADAPTERS.length]! } as const;
      // A session may have eight nodes.
      const session = token === undefined ? {} : { sessionToken: await sessionFor(webUrl, token) };
      const nodeId = `scripted-${String(at).padStart(3, '0')}`;
      const door = { webPort, modelDigest, nodeId, ...session };
      const node = await ScriptedNode.attach({ ...door, stepMs, poolTokens: POOL_TOKENS, attach: { adapter } });
      node.load = loadAt(at);
      await node.report(true);
      nodes.push(node);
    }
    return new ScriptedFleet(nodes);
  }

  /** Asks for answers, `streams` at a time, until it is closed. */
  serve({ grpc }: TestRelay, streams: number, tokens: number): void {
    const client = schedulerClient(grpc);
    const loop = async () => {
      while (!this.stopped) {
        const maxNewTokens = Math.ceil(tokens * (0.5 + Math.random()));
        // The relay may go before the fleet does.
        await collect(client, greedyRequest(PROMPT_IDS, { maxNewTokens, ignoreEos: true })).then(
          () => {
            this.served++;
          },
          () => sleep(100),
        );
      }
    };
    for (let at = 0; at < streams; at++) this.loops.push(loop());
  }

  async close(): Promise<void> {
    this.stopped = true;
    await Promise.race([Promise.all(this.loops), sleep(5_000)]);
    for (const node of this.nodes) node.kill();
  }
}
