import { create } from '@bufbuild/protobuf';
import { createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-web';
import { AttachRequestSchema, KvType, NodeRelay, Precision } from '../../src/contract/gen/node_relay_pb.ts';
import { Engine } from '../../src/engine/engine.ts';
import type { Grammars } from '../../src/engine/grammars.ts';
import { letterTokens } from '../../src/engine/testing/serve.ts';
import { CpuRunner } from '../../src/model/cpu-runner.ts';
import type { Runner } from '../../src/model/runner.ts';
import type { TinyModel } from '../../src/model/testing/tiny-model.ts';
import { Session } from '../../src/node/session.ts';
import type { SessionEnd } from '../../src/node/session-options.ts';
import { nodeEvents, nodeLoad } from '../../src/node/wire.ts';

export interface CpuNode {
  readonly engine: Engine;
  readonly session: Session;
  readonly ended: Promise<SessionEnd>;
}

/** A node as a page has it, session and engine, over the CPU reference runner with a tiny model. */
export async function openCpuNode(
  relay: { readonly webPort: number; readonly digest: string },
  { checkpoint, config }: TinyModel,
  settings: {
    readonly nodeId: string;
    readonly maxRunning: number;
    readonly kvBlocks: number;
    /** As it tells it; exact where it says nothing. */
    readonly precision?: Precision;
    readonly grammars?: Grammars;
    /** As the relay's model has them. */
    readonly layers?: number;
    /** What drives the model in the CPU runner's place: it, with something around it. */
    readonly around?: (runner: Runner) => Runner;
  },
): Promise<CpuNode> {
  const { nodeId, maxRunning, kvBlocks, grammars, layers = 1, around = (inner) => inner } = settings;
  const { precision = Precision.EXACT } = settings;
  const cpu = await CpuRunner.load(checkpoint, config, { kvBlocks, maxRows: 64, maxSequences: maxRunning });
  const runner = around(cpu);
  let session: Session | undefined;
  const engine = new Engine({
    runner,
    tokens: letterTokens(config.vocabSize),
    limits: { maxRunning, maxWaiting: 512, prefillRows: 32, stepsInFlight: 2, policy: 'lpm', prefixCache: true },
    ...(grammars ? { grammars } : {}),
    onEvents: (events) => session?.report(events.flatMap(nodeEvents)),
    now: () => performance.now(),
  });
  session = new Session({
    client: createClient(
      NodeRelay,
      createConnectTransport({ baseUrl: `http://127.0.0.1:${relay.webPort}`, useBinaryFormat: true }),
    ),
    identity: create(AttachRequestSchema, {
      protocolVersion: 1,
      nodeId,
      modelDigest: relay.digest,
      precision,
      kvType: KvType.F32,
      contextLength: config.contextLength,
      poolTokens: kvBlocks * 16,
      maxRunning,
      layers: { from: 0, to: layers },
    }),
    target: engine,
    load: () => nodeLoad(engine.load(), { hidden: false, paused: false }),
    onState: () => {},
    onKey: () => {},
    random: () => 0,
  });
  return { engine, session, ended: session.run() };
}
