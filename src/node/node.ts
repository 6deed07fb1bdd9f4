import { create } from '@bufbuild/protobuf';
import { createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-web';
import { AttachRequestSchema, KvType, NodeRelay, Precision } from '../contract/gen/node_relay_pb.ts';
import { type LoadedEngine, loadEngine } from './load-engine.ts';
import type { JoinRequest, NodeMessage, NodeState } from './messages.ts';
import { fetchManifest, fetchModelFiles, type ModelFiles } from './model-files.ts';
import { PROTOCOL_VERSION, Session, type SessionEnd } from './session.ts';
import { nodeEvent, nodeLoad } from './wire.ts';

const COUNTERS_MS = 1_000;
/** Lost devices after which the node gives up, and the time in which they count. */
const MOST_LOSSES = 3;
const LOSSES_WITHIN_MS = 600_000;

/** A page's node: loads the relay's model onto the GPU, then keeps a session with the relay until it is left. */
export class Node {
  hidden = false;
  readonly #post: (message: NodeMessage) => void;
  #session: Session | undefined;

  constructor(post: (message: NodeMessage) => void) {
    this.#post = post;
  }

  /** Serves until `leave`, a refusal or a failure that a new device does not mend. */
  async join(join: JoinRequest): Promise<void> {
    try {
      const losses: number[] = [];
      for (;;) {
        const lost = await this.#serve(join);
        if (lost === undefined) return;
        const now = performance.now();
        losses.push(now);
        if (losses.filter((at) => at > now - LOSSES_WITHIN_MS).length > MOST_LOSSES) {
          throw new Error(`the GPU device was lost ${losses.length} times: ${lost}`);
        }
      }
    } catch (error) {
      this.#state('error', error instanceof Error ? error.message : String(error));
    }
  }

  leave(): void {
    this.#session?.leave();
  }

  restart(): void {
    this.#session?.restart();
  }

  /** One device's life. Returns why the device was lost, or undefined when the node is done. */
  async #serve(join: JoinRequest): Promise<string | undefined> {
    this.#state('loading', '');
    const files = await fetchModelFiles(join.relayUrl, (loadedBytes, totalBytes) =>
      this.#post({ type: 'progress', loadedBytes, totalBytes }),
    );
    let session: Session | undefined;
    const loaded = await loadEngine(files, (events) => session?.report(events.map(nodeEvent)));
    const counting = setInterval(() => this.#count(loaded), COUNTERS_MS);
    try {
      this.#post({ type: 'facts', facts: loaded.facts });
      session = this.#openSession(join, files, loaded);
      this.#session = session;
      let lost: string | undefined;
      void loaded.lost.then((reason) => {
        lost = reason;
        session?.leave();
      });
      const end = await session.run();
      if (lost !== undefined) return lost;
      await this.#ended(end, join, files);
      return undefined;
    } finally {
      this.#session = undefined;
      clearInterval(counting);
      loaded.destroy();
    }
  }

  #openSession(join: JoinRequest, files: ModelFiles, loaded: LoadedEngine): Session {
    const { facts, engine } = loaded;
    const identity = create(AttachRequestSchema, {
      protocolVersion: PROTOCOL_VERSION,
      build: join.build,
      nodeId: join.nodeId,
      modelDigest: files.digest,
      precision: Precision.EXACT,
      kvType: KvType.F32,
      contextLength: facts.contextLength,
      poolTokens: facts.poolTokens,
      maxRunning: engine.load().maxRunning,
      features: [...facts.features],
      layers: { from: 0, to: loaded.layers },
      adapter: facts.adapter,
    });
    return new Session({
      client: createClient(NodeRelay, createConnectTransport({ baseUrl: join.relayUrl, useBinaryFormat: true })),
      identity,
      target: engine,
      load: () => nodeLoad(engine.load(), this.hidden),
      onState: (state, detail) => this.#state(state, detail),
      onKey: (key, rank) =>
        this.#post({
          type: 'session',
          rank,
          session: key && {
            sessionToken: key.sessionToken,
            relayEpoch: String(key.relayEpoch),
            sessionEpoch: String(key.sessionEpoch),
          },
        }),
      random: Math.random,
    });
  }

  async #ended(end: SessionEnd, join: JoinRequest, files: ModelFiles): Promise<void> {
    if (end.why === 'left') {
      this.#state('left', '');
    } else if (end.why === 'other-build') {
      this.#post({ type: 'reload', reason: 'the relay serves another build of this page' });
    } else if ((await fetchManifest(join.relayUrl)).digest !== files.digest) {
      this.#post({ type: 'reload', reason: 'the relay serves another model' });
    } else {
      this.#state('error', end.message);
    }
  }

  #count(loaded: LoadedEngine): void {
    this.#post({ type: 'counters', counters: { ...loaded.engine.load(), gpuBuffers: loaded.gpuBuffers() } });
  }

  #state(state: NodeState, detail: string): void {
    this.#post({ type: 'state', state, detail });
  }
}
