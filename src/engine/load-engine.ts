import { bytesSource } from '../checkpoint/byte-source.ts';
import { CheckpointError } from '../checkpoint/checkpoint.ts';
import { parseGenerationConfig, parseModelConfig } from '../checkpoint/model-config.ts';
import { openSafetensors } from '../checkpoint/safetensors.ts';
import { readTokenBytes } from '../checkpoint/token-bytes.ts';
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

/** The files of a model, by name. */
export interface ModelBytes {
  readonly names: readonly string[];
  bytes(name: string): Uint8Array | undefined;
}

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
 * DeviceUnavailableError, CheckpointError (naming the file) or AllocationError (with the sizes); nothing stays
 * allocated then.
 */
export async function loadEngine(
  gpu: GPU,
  files: ModelBytes,
  budget: EngineBudget,
  startGrammarWorker: StartGrammarWorker,
  onEvents: (events: readonly EngineEvent[]) => void,
): Promise<LoadedEngine> {
  const { adapter, device } = await requestDevice(gpu);
  try {
    const config = parseModelConfig(fileText(files, 'config.json'), 'config.json');
    const weights = weightFile(files);
    const checkpoint = await openSafetensors(bytesSource(weights.name, weights.bytes));
    const tokens = readTokenBytes(fileText(files, 'tokenizer.json'), 'tokenizer.json');
    const runner = await loadLlama(device, checkpoint, config, {
      maxRows: Math.max(MAX_ROWS, budget.maxRunning),
      maxSequences: budget.maxRunning,
      kvBudgetBytes: budget.kvBytes,
      maxKvBlocks: budget.maxRunning * Math.ceil(config.contextLength / BLOCK_TOKENS),
    });
    const stopIds = eosTokenIds(files) ?? config.eosTokenIds;
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

function fileText(files: ModelBytes, name: string): string {
  const bytes = files.bytes(name);
  if (bytes === undefined) throw new CheckpointError(`the model has no ${name}`);
  return new TextDecoder().decode(bytes);
}

function eosTokenIds(files: ModelBytes): readonly number[] | undefined {
  const name = 'generation_config.json';
  return files.bytes(name) && parseGenerationConfig(fileText(files, name), name).eosTokenIds;
}

function weightFile(files: ModelBytes): { name: string; bytes: Uint8Array } {
  const names = files.names.filter((name) => name.endsWith('.safetensors'));
  const [name] = names;
  const bytes = name === undefined ? undefined : files.bytes(name);
  if (names.length !== 1 || name === undefined || bytes === undefined) {
    throw new CheckpointError(`the model has ${names.length} weight files (.safetensors), and one is read`);
  }
  return { name, bytes };
}

function adapterFacts({ info }: GPUAdapter): AdapterFacts {
  return {
    vendor: info.vendor,
    architecture: info.architecture,
    description: info.description || info.device,
    fallback: info.isFallbackAdapter,
  };
}
