import { create } from '@bufbuild/protobuf';
import { pino } from 'pino';
import {
  type GenerateRequest,
  GenerateRequestSchema,
  type SamplingParams,
  SamplingParamsSchema,
} from '../../contract/gen/sglang_scheduler_pb.ts';
import type { RelayOptions } from '../options.ts';
import { type Relay, startRelay } from '../relay.ts';
import { GrpcClient } from './grpc-client.ts';
import { type Script, ScriptedNode } from './scripted-node.ts';

export const MODEL_DIR = new URL('../../../models/stories260K', import.meta.url).pathname;

/** A real relay on free ports, with a client, and a way to make nodes; everything goes with `end`. */
export class RelayBench {
  readonly relay: Relay;
  readonly client: GrpcClient;
  private readonly nodes: ScriptedNode[] = [];
  private readonly clients: GrpcClient[] = [];

  private constructor(relay: Relay) {
    this.relay = relay;
    this.client = this.newClient();
  }

  static async start(options: Partial<RelayOptions> = {}): Promise<RelayBench> {
    const relay = await startRelay({
      model: MODEL_DIR,
      build: { packageVersion: '0.0.0-test', pageHash: '0'.repeat(64) },
      grpcPort: 0,
      webPort: 0,
      closeGraceMs: 0,
      // What nodes are given is the tests' own, unless they are of audits.
      auditShare: 0,
      logger: pino({ level: 'silent' }),
      ...options,
    });
    return new RelayBench(relay);
  }

  newClient(options?: Record<string, number>): GrpcClient {
    const client = new GrpcClient(this.relay.grpcPort, options);
    this.clients.push(client);
    return client;
  }

  async node(script: Partial<Script> = {}): Promise<ScriptedNode> {
    const node = await ScriptedNode.attach({
      webPort: this.relay.webPort,
      modelDigest: this.relay.model.digest,
      ...script,
    });
    this.nodes.push(node);
    return node;
  }

  get webUrl(): string {
    return `http://127.0.0.1:${this.relay.webPort}`;
  }

  async end(): Promise<void> {
    for (const node of this.nodes) node.kill();
    for (const client of this.clients) client.close();
    await this.relay.close();
  }
}

/** A greedy streaming request, as a gateway would send it. */
export function requestOf(
  inputIds: number[],
  sampling: Partial<Omit<SamplingParams, '$typeName' | '$unknown'>> = {},
  rest: Partial<Omit<GenerateRequest, '$typeName' | '$unknown'>> = {},
): GenerateRequest {
  const samplingParams = create(SamplingParamsSchema, { topP: 1, topK: -1, repetitionPenalty: 1, n: 1, ...sampling });
  return Object.assign(
    create(GenerateRequestSchema, { tokenized: { inputIds }, samplingParams, logprobStartLen: -1, stream: true }),
    rest,
  );
}
