import type { ManifestQuantisation } from '../checkpoint/manifest.ts';
import { requestDevice } from '../gpu/request-device.ts';
import { loadLlama } from '../model/load-llama.ts';
import { BLOCK_TOKENS } from '../model/runner.ts';
import type { AdapterFacts } from './adapter-facts.ts';
import { Engine } from './engine.ts';
import type { EngineBudget } from './engine-budget.ts';
import { ENGINE_DEFAULTS, MAX_ROWS } from './engine-defaults.ts';
import type { EngineEvent } from './event.ts';
import type { StartGrammarWorker } from './grammar/grammar-messages.ts';
import { GrammarPool } from './grammar/grammar-pool.ts';
import { grammarVocabulary } from './grammar/grammar-vocabulary.ts';
import { type ModelFiles, readModel } from './read-model.ts';

/** An engine with the device that it runs on. */
export interface LoadedEngine {
  readonly engine: Engine;
  readonly adapter: AdapterFacts;
  /** Names of the WebGPU features in use. */
  readonly features: readonly string[];
  readonly layers: number;
  readonly contextLength: number;
  readonly poolTokens: number;
  /** Live GPU buffers. */
  gpuBuffers(): number;
  /** Resolves with the reason when the device is lost or the engine broke, never when it is destroyed here. */
  readonly lost: Promise<string>;
  /** Frees the device and all it holds. */
  destroy(): void;
}

/**
 * Puts a model on `gpu` and an engine on it; grammar workers start with the first constraint. Rejects with
 * DeviceUnavailableError, CheckpointError (naming the file), AllocationError (with the sizes) or what reading a file
 * rejects with; nothing stays allocated then.
 */
export async function loadEngine(
  gpu: GPU,
  files: ModelFiles,
  quantisation: ManifestQuantisation,
  budget: EngineBudget,
  startGrammarWorker: StartGrammarWorker,
  onEvents: (events: readonly EngineEvent[]) => void,
): Promise<LoadedEngine> {
  const start = performance.now();
  const { adapter, device } = await requestDevice(gpu);
  performance.measure('load device', { start });
  try {
    const reading = performance.now();
    const { checkpoint, config, tokens, stopIds } = await readModel(files);
    performance.measure('load header', { start: reading });
    const runner = await loadLlama(device, checkpoint, config, {
      maxRows: Math.max(MAX_ROWS, budget.maxRunning),
      maxSequences: budget.maxRunning,
      kvBudgetBytes: budget.kvBytes,
      maxKvBlocks: budget.maxRunning * Math.ceil(config.contextLength / BLOCK_TOKENS),
      ...(quantisation === 'none' ? {} : { quantisation }),
    });
    const grammars = new GrammarPool(grammarVocabulary(tokens, config.vocabSize, stopIds), startGrammarWorker);
    let destroyed = false;
    let announceLoss: (reason: string) => void = () => {};
    const lost = new Promise<string>((resolve) => {
      announceLoss = (reason) => {
        if (!destroyed) resolve(reason);
      };
    });
    void device.lost.then((info) => announceLoss(info.message || info.reason));
    const engine = new Engine({
      runner,
      tokens,
      grammars,
      limits: { ...ENGINE_DEFAULTS, maxRunning: budget.maxRunning },
      onEvents,
      onBroken: announceLoss,
      now: () => performance.now(),
    });
    return {
      engine,
      adapter: adapterFacts(adapter),
      features: [...device.features].sort(),
      layers: Number(config.raw.num_hidden_layers),
      contextLength: runner.limits.contextLength,
      poolTokens: runner.limits.blocks * BLOCK_TOKENS,
      gpuBuffers: () => runner.allocatedBuffers,
      lost,
      destroy: () => {
        destroyed = true;
        grammars.destroy();
        runner.destroy();
        device.destroy();
      },
    };
  } catch (error) {
    device.destroy();
    throw error;
  }
}

function adapterFacts({ info }: GPUAdapter): AdapterFacts {
  return {
    vendor: info.vendor,
    architecture: info.architecture,
    description: info.description || info.device,
    fallback: info.isFallbackAdapter,
  };
}
