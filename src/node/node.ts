import { ConnectError, createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-web';
import type { Manifest } from '../checkpoint/manifest.ts';
import { NodeRelay } from '../contract/gen/node_relay_pb.ts';
import type { NodeState } from '../contract/node-state.ts';
import type { EngineLoad } from '../engine/engine-load.ts';
import type { Profile } from '../engine/profile.ts';
import type { ModelFiles } from '../engine/read-model.ts';
import { attachIdentity } from './attach-identity.ts';
import { backoffMs } from './backoff.ts';
import { DutyCycle } from './duty-cycle.ts';
import { GpuRecovery, isNoAdapter, lossOf } from './gpu-recovery.ts';
import { IndexedStore } from './indexed-store.ts';
import { loadServed, type ServedModel } from './load-served.ts';
import { logRequest } from './log-request.ts';
import type { DetachKey, JoinRequest, NodeMessage } from './messages.ts';
import { fetchAbout, fetchManifest } from './model-files.ts';
import type { ModelShelf } from './model-shelf.ts';
import { adapterFiles, NodeAdapters } from './node-adapters.ts';
import { outdated } from './outdated.ts';
import { pause } from './pause.ts';
import { RelayAccess } from './relay-access.ts';
import { RelayUnreachableError } from './relay-unreachable-error.ts';
import { Session } from './session.ts';
import type { CommandTarget, SessionEnd } from './session-options.ts';
import { startGrammarWorker } from './start-grammar-worker.ts';
import { nodeLoad } from './wire.ts';

/** Why a node is to begin anew, where it is. */
type Again = { readonly lost: string } | { readonly news: string } | undefined;

const COUNTERS_MS = 1_000;
/** Of each stage, where the page's user asks. */
const PROFILE_STEPS = 3;

/** A page's node: loads the relay's model onto the GPU, then keeps a session with the relay until it is left. */
export class Node {
  hidden = false;
  readonly #duty = new DutyCycle();
  #paused = false;
  #servingSince: number | undefined;
  /** What engines of lost devices have counted. */
  #before = { tokensMade: 0, requestsTaken: 0 };
  #hasReset = false;
  readonly #post: (message: NodeMessage) => void;
  readonly #left = new AbortController();
  #session: Session | undefined;
  #access: RelayAccess | undefined;
  #key: { readonly session: DetachKey; readonly rank: number | undefined } | undefined;
  #target: CommandTarget | undefined;
  readonly #shelf: ModelShelf;
  readonly #recovery: GpuRecovery;

  constructor(post: (message: NodeMessage) => void, shelf: ModelShelf) {
    this.#post = post;
    this.#shelf = shelf;
    this.#recovery = new GpuRecovery(post, this.#left.signal);
  }

  /** Serves until `leave`, a refusal or a failure that a new device does not mend. */
  async join(join: JoinRequest): Promise<void> {
    this.#recovery.hadDevice = join.hadDevice;
    this.#access = new RelayAccess(join.relayUrl, join.token);
    this.#access.onSession = () => this.#tellSession();
    try {
      let news = '';
      for (;;) {
        const again = await this.#serve(join, news);
        if (again === undefined) return;
        news = 'lost' in again ? await this.#recovery.lost(again.lost) : again.news;
      }
    } catch (error) {
      if (this.#left.signal.aborted) this.#state('left', '');
      else this.#failed(error);
    } finally {
      this.#shelf.release();
    }
  }

  /** Ends `join`, whatever it is doing. */
  leave(): void {
    this.#left.abort();
    this.#session?.leave();
  }

  /** While paused it finishes what it has, and the relay gives it nothing new. */
  set paused(paused: boolean) {
    this.#paused = paused;
    this.#session?.tellLoad();
  }

  /** Share of the GPU's time that steps may take, from now on. */
  set gpuShare(share: number) {
    this.#duty.share = share;
  }

  /** Times the kernels of the next steps for the page. */
  profile(): void {
    void this.#target?.profile({ steps: PROFILE_STEPS, byStage: true }).then((profile) => this.#profiled(profile));
  }

  restart(): void {
    this.#session?.restart();
  }

  /** The life of a model on a device. Rejects after `leave`. */
  async #serve(join: JoinRequest, news: string): Promise<Again> {
    this.#state('loading', news);
    const served = await this.#load(join).catch(lossOf);
    if (typeof served === 'string') return { lost: served };
    const { loaded, digest } = served;
    const counting = setInterval(() => this.#count(loaded), COUNTERS_MS);
    try {
      this.#left.signal.throwIfAborted();
      const session = this.#openSession(join, digest, loaded);
      this.#session = session;
      this.#target = loaded.target;
      let lost: string | undefined;
      void loaded.lost.then((reason) => {
        lost = reason;
        session.leave();
      });
      const end = await session.run();
      if (lost !== undefined && !this.#left.signal.aborted) return { lost };
      return await this.#ended(end, join, digest);
    } finally {
      this.#session = undefined;
      this.#target = undefined;
      clearInterval(counting);
      const { tokensMade, requestsTaken } = this.#counted(loaded);
      this.#before = { tokensMade, requestsTaken };
      loaded.destroy();
    }
  }

  /** Tries until the relay answers, and until an adapter that is away is back: no page needs anybody to press a button. */
  async #load(join: JoinRequest): Promise<{ loaded: ServedModel; digest: string }> {
    if (!navigator.gpu) throw new Error('this browser offers no WebGPU to Web Workers: update it');
    const { signal } = this.#left;
    for (let failures = 0; ; failures++) {
      try {
        return await this.#loadServed(navigator.gpu, join, signal);
      } catch (error) {
        if (this.#recovery.mends(error)) {
          await this.#recovery.adapterAway(error);
          continue;
        }
        if (!(error instanceof RelayUnreachableError)) throw error;
        this.#state('loading', `${error.message}; trying again`);
        await pause(backoffMs(failures, Math.random), signal);
        this.#state('loading', '');
      }
    }
  }

  /** Puts the model that the relay serves just now onto the GPU. */
  async #loadServed(
    gpu: GPU,
    join: JoinRequest,
    signal: AbortSignal,
  ): Promise<{ loaded: ServedModel; digest: string }> {
    const { relayUrl } = join;
    const ask = this.#access?.ask ?? fetch;
    const { manifest, digest } = await fetchManifest(relayUrl, signal, ask);
    const onTrouble = (trouble: string | undefined) =>
      this.#state('loading', trouble === undefined ? '' : `${trouble}; trying again`);
    const { adapters } = await fetchAbout(relayUrl, signal, ask);
    const budget = adapters ? { ...join.budget, adapters } : join.budget;
    const load = (files: ModelFiles) => this.#loadOnto(gpu, files, manifest, { ...join, budget });
    const loaded = await this.#shelf.load({ manifest, digest }, { relayUrl, signal, ask, onTrouble }, load);
    return { loaded, digest };
  }

  async #loadOnto(
    gpu: GPU,
    files: ModelFiles,
    manifest: Manifest,
    { budget, build, kernels }: JoinRequest,
  ): Promise<ServedModel> {
    const { signal } = this.#left;
    const loaded = await loadServed(gpu, {
      files,
      quantisation: manifest.quantisation,
      budget,
      startGrammarWorker,
      throttle: this.#duty,
      report: (events) => this.#session?.report(events),
      kernels: {
        ...kernels,
        // Once: a device that is lost later is no reason to try them all again.
        tune: this.#hasReset && kernels.tune === 'reset' ? 'auto' : kernels.tune,
        // A development server's page changes under its own name.
        store: build.pageHash ? new IndexedStore() : undefined,
        // Browsers tell no driver, and compile WGSL each in its own way.
        version: `${build.packageVersion} ${build.pageHash} ${navigator.userAgent}`,
        onProgress: (done, total) => this.#post({ type: 'testing', done, total }),
        signal,
      },
    });
    this.#hasReset = true;
    this.#recovery.found();
    const { task, adapter, features, contextLength, poolTokens } = loaded;
    const facts = { model: manifest.name, task, adapter, features, kernels: loaded.kernels, contextLength, poolTokens };
    this.#post({ type: 'facts', facts });
    void loaded.refused.then((refused) => {
      if (refused.length === 0) return;
      const kernels = { ...facts.kernels, failed: [...facts.kernels.failed, ...refused] };
      this.#post({ type: 'facts', facts: { ...facts, kernels } });
    });
    return loaded;
  }

  #openSession(join: JoinRequest, modelDigest: string, loaded: ServedModel): Session {
    const files = adapterFiles(join.relayUrl, this.#access?.ask ?? fetch, this.#left.signal);
    const transport = createConnectTransport({
      baseUrl: join.relayUrl,
      useBinaryFormat: true,
      ...(this.#access ? { fetch: this.#access.ask } : {}),
    });
    const session: Session = new Session({
      client: createClient(NodeRelay, transport),
      identity: attachIdentity(join, modelDigest, loaded),
      target: loaded.target,
      adapters: loaded.lora && new NodeAdapters(loaded.lora, files, (events) => session.report(events)),
      load: () => nodeLoad(loaded.load(), { hidden: this.hidden, paused: this.#paused }),
      onState: (state, detail) => this.#state(state, detail),
      onKey: (key, rank) => {
        this.#key = key && {
          rank,
          session: {
            sessionToken: key.sessionToken,
            relayEpoch: String(key.relayEpoch),
            sessionEpoch: String(key.sessionEpoch),
          },
        };
        this.#tellSession();
      },
      onRequest: logRequest,
      onProfile: (profile) => this.#profiled(profile),
      random: Math.random,
    });
    return session;
  }

  #tellSession(): void {
    const { authorization } = this.#access ?? {};
    this.#post({ type: 'session', session: this.#key?.session, rank: this.#key?.rank, authorization });
  }

  async #ended(end: SessionEnd, join: JoinRequest, digest: string): Promise<Again> {
    if (end.why === 'left') this.#state('left', '');
    else if (end.why === 'other-build') this.#reload('the relay serves another build of this page');
    else {
      const what = await outdated(join, digest, this.#left.signal, this.#access?.ask);
      this.#left.signal.throwIfAborted();
      if (what === 'model') return { news: 'The relay serves another model' };
      // Nobody has to press a button: the model that it serves is loaded once it answers.
      if (what === 'unknown') return { news: end.message };
      if (what === 'page') this.#reload(end.message);
      else this.#state('error', end.message);
    }
    return undefined;
  }

  #count(loaded: ServedModel): void {
    const uptimeMs = this.#servingSince === undefined ? undefined : performance.now() - this.#servingSince;
    const more = { uptimeMs, gpuShare: this.#duty.measured(), gpuBuffers: loaded.gpuBuffers() };
    this.#post({ type: 'counters', counters: { ...this.#counted(loaded), ...more } });
  }

  #counted(loaded: ServedModel): EngineLoad {
    const load = loaded.load();
    return {
      ...load,
      tokensMade: this.#before.tokensMade + load.tokensMade,
      requestsTaken: this.#before.requestsTaken + load.requestsTaken,
    };
  }

  #profiled(profile: Profile): void {
    this.#post({ type: 'profile', profile });
  }

  #failed(error: unknown): void {
    const { message } = error instanceof Error ? error : new Error(String(error));
    const detail = error instanceof ConnectError ? error.rawMessage : message;
    const problem = isNoAdapter(error) ? 'no-adapter' : undefined;
    this.#post({ type: 'state', state: 'error', detail, problem });
  }

  #reload(reason: string): void {
    this.#post({ type: 'reload', reason });
  }

  #state(state: NodeState, detail: string): void {
    if (state === 'serving') this.#servingSince ??= performance.now();
    this.#post({ type: 'state', state, detail, problem: undefined });
  }
}
