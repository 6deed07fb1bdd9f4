import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ModelTask } from '../checkpoint/model-task.ts';
import type { NodeEventSchema } from '../contract/gen/node_relay_pb.ts';
import type { EmbedderLoad } from '../engine/embedder.ts';
import type { EngineLoad } from '../engine/engine-load.ts';
import { loadEmbedder } from '../engine/load-embedder.ts';
import { type EngineParts, loadEngine } from '../engine/load-engine.ts';
import type { LoadedModel } from '../engine/loaded-model.ts';
import type { LoraAdapters } from '../engine/lora-adapters.ts';
import { readTask } from '../engine/read-model.ts';
import { EmbedTarget } from './embed-target.ts';
import type { CommandTarget } from './session-options.ts';
import { nodeEvents } from './wire.ts';

/** The model that the relay serves, on a GPU, as a session drives it. */
export interface ServedModel extends LoadedModel {
  readonly task: ModelTask;
  readonly target: CommandTarget;
  /** Sequences, or texts, that the relay may give at a time. */
  readonly maxRunning: number;
  load(): EngineLoad;
  /** Undefined: the model takes no LoRA adapters. */
  readonly lora: LoraAdapters | undefined;
}

export interface ServedParts extends Omit<EngineParts, 'onEvents'> {
  readonly report: (events: readonly MessageInitShape<typeof NodeEventSchema>[]) => void;
}

/** Steps of an embedder that the GPU has at once: as many texts are worth having here. */
const EMBED_STEPS = 2;

/** Loads what generates or what makes vectors, as the model's files say. Rejects as loadEngine does. */
export async function loadServed(gpu: GPU, parts: ServedParts): Promise<ServedModel> {
  const { report, ...rest } = parts;
  const task = await readTask(parts.files);
  if (task === 'generate') {
    const loaded = await loadEngine(gpu, { ...rest, onEvents: (events) => report(events.flatMap(nodeEvents)) });
    const { engine } = loaded;
    const lora = engine.lora.slots > 0 ? engine.lora : undefined;
    return { ...loaded, task, target: engine, maxRunning: engine.load().maxRunning, load: () => engine.load(), lora };
  }
  const loaded = await loadEmbedder(gpu, rest);
  const { embedder, poolTokens } = loaded;
  const maxRunning = EMBED_STEPS * embedder.load().maxRunning;
  const load = () => loadOf(embedder.load(), poolTokens, maxRunning);
  return { ...loaded, task, target: new EmbedTarget(embedder, report), maxRunning, load, lora: undefined };
}

/** An embedder's load in an engine's terms: it makes no tokens and reads them, and holds those that the GPU has. */
function loadOf(load: EmbedderLoad, poolTokens: number, maxRunning: number): EngineLoad {
  return {
    running: load.running,
    waiting: load.waiting,
    retracted: 0,
    usedTokens: Math.min(load.runningTokens, poolTokens),
    maxTokens: poolTokens,
    cachedTokens: 0,
    cacheHitRate: undefined,
    waitingUncachedTokens: load.waitingTokens,
    maxRunning,
    genThroughput: load.throughput,
    weightBytes: load.weightBytes,
    kvBytes: 0,
    gpuBytes: load.gpuBytes,
    requestsTaken: load.requestsTaken,
    tokensMade: load.tokensRead,
    lora: undefined,
    speculation: undefined,
  };
}
