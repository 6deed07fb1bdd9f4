import { setTimeout as sleep } from 'node:timers/promises';
import type { TinyModel } from '../../src/model/testing/tiny-model.ts';
import type { SessionEnd } from '../../src/node/session-options.ts';
import type { ChaosNode } from './chaos-node.ts';
import { type CpuNode, openCpuNode } from './cpu-node.ts';
import { FaultyProxy, type ReportFate } from './faulty-proxy.ts';
import { PacedRunner } from './paced-runner.ts';

export interface SimulatedSettings {
  /** Base URL of the relay's web port. */
  readonly webUrl: string;
  readonly digest: string;
  readonly model: TinyModel;
  /** As the relay's model has them. */
  readonly layers: number;
  readonly kvBlocks: number;
  readonly maxRunning: number;
  /** Of each of its steps, in milliseconds. */
  readonly stepMs: number;
}

interface Body {
  readonly proxy: FaultyProxy;
  readonly runner: PacedRunner;
  readonly cpu: CpuNode;
  end: SessionEnd | undefined;
}

let made = 0;

/** A node without a browser: session and engine as a page has them, the CPU's runner, and a network of its own. */
export class SimulatedNode implements ChaosNode {
  readonly #settings: SimulatedSettings;
  #body: Body;

  private constructor(settings: SimulatedSettings, body: Body) {
    this.#settings = settings;
    this.#body = body;
  }

  static async open(settings: SimulatedSettings): Promise<SimulatedNode> {
    return new SimulatedNode(settings, await embody(settings));
  }

  get busy(): boolean {
    return !this.#body.cpu.engine.idle;
  }

  get engine() {
    return this.#body.cpu.engine;
  }

  async check(): Promise<void> {
    const { end } = this.#body;
    if (end) throw new Error(`a node's session ended by itself: ${JSON.stringify(end)}`);
  }

  async kill(): Promise<void> {
    const { proxy, cpu } = this.#body;
    await proxy.close();
    // Nobody hears it.
    cpu.session.leave();
    await cpu.ended;
    this.#body = await embody(this.#settings);
  }

  async leave(): Promise<void> {
    await this.close();
    this.#body = await embody(this.#settings);
  }

  async freeze(ms: number): Promise<void> {
    const { proxy, runner } = this.#body;
    await Promise.all([proxy.freeze(ms), runner.freeze(ms)]);
  }

  async cut(ms: number): Promise<void> {
    await this.#body.proxy.cut(ms);
  }

  /** Its network and its device. */
  async slow(ms: number): Promise<void> {
    const { proxy, runner } = this.#body;
    runner.stepMs = 10 * this.#settings.stepMs;
    await proxy.slow(ms, 60);
    runner.stepMs = this.#settings.stepMs;
  }

  async muddle(ms: number, fate: () => ReportFate): Promise<void> {
    await this.#body.proxy.muddle(ms, fate);
  }

  /** Leaves for good. */
  async close(): Promise<void> {
    const { proxy, cpu } = this.#body;
    cpu.session.leave();
    await cpu.ended;
    // What is still on its way arrives.
    await sleep(1);
    await proxy.close();
  }
}

async function embody(settings: SimulatedSettings): Promise<Body> {
  const { webUrl, digest, model, layers, kvBlocks, maxRunning, stepMs } = settings;
  const proxy = await FaultyProxy.open(webUrl);
  let paced: PacedRunner | undefined;
  const cpu = await openCpuNode({ webPort: proxy.port, digest }, model, {
    nodeId: `simulated-${++made}`,
    layers,
    kvBlocks,
    maxRunning,
    around: (inner) => {
      paced = new PacedRunner(inner, stepMs);
      return paced;
    },
  });
  const body: Body = { proxy, runner: paced!, cpu, end: undefined };
  void cpu.ended.then((end) => {
    body.end = end;
  });
  return body;
}
