import type { ManifestQuantisation } from '../checkpoint/manifest.ts';
import { decoderKernels } from '../model/decoder-kernels.ts';
import type { GpuRunner } from '../model/gpu-runner.ts';
import { poolTokens } from '../model/kv-layout.ts';
import { loadDecoder } from '../model/load-decoder.ts';
import type { LoadOptions } from '../model/load-options.ts';
import { BLOCK_TOKENS } from '../model/runner.ts';
import { Engine } from './engine.ts';
import type { EngineBudget } from './engine-budget.ts';
import { ENGINE_DEFAULTS, MAX_ROWS } from './engine-defaults.ts';
import type { EngineEvent } from './event.ts';
import type { StartGrammarWorker } from './grammar/grammar-messages.ts';
import { GrammarPool } from './grammar/grammar-pool.ts';
import { grammarVocabulary } from './grammar/grammar-vocabulary.ts';
import type { KernelReport } from './kernel-report.ts';
import type { KernelSetup } from './kernel-setup.ts';
import { DeviceLife, type LoadedModel, loadOnDevice, loadWithKernels, type ModelDevice } from './loaded-model.ts';
import { type ModelFiles, type ReadModel, readModel } from './read-model.ts';
import type { StepThrottle } from './step-throttle.ts';
import { untilDeviceLost } from './until-device-lost.ts';

/** An engine with the device that it runs on. */
export interface LoadedEngine extends LoadedModel {
  readonly engine: Engine;
}

/** What an engine is made of. */
export interface EngineParts {
  readonly files: ModelFiles;
  readonly quantisation: ManifestQuantisation;
  readonly budget: EngineBudget;
  readonly startGrammarWorker: StartGrammarWorker;
  readonly onEvents: (events: readonly EngineEvent[]) => void;
  readonly kernels: KernelSetup;
  readonly throttle?: StepThrottle;
}

/**
 * Puts a model on `gpu` and an engine on it; grammar workers start with the first constraint. Rejects with
 * DeviceUnavailableError, DeviceLostError, CheckpointError (naming the file), AllocationError (with the sizes), KernelFailure (naming the
 * kernel that the GPU computes wrong) or what reading a file rejects with; nothing stays allocated then.
 */
export function loadEngine(gpu: GPU, parts: EngineParts): Promise<LoadedEngine> {
  return loadOnDevice(gpu, (on) => load(on, parts));
}

async function load(on: ModelDevice, parts: EngineParts): Promise<LoadedEngine> {
  const { budget, startGrammarWorker, onEvents, throttle } = parts;
  const reading = performance.now();
  const model = await readModel(parts.files);
  performance.measure('load header', { start: reading });
  const { config, tokens, stopIds } = model;
  const { runner, kernels } = await untilDeviceLost(on.device, loadRunner(on, model, parts));
  const grammars = new GrammarPool(grammarVocabulary(tokens, config.vocabSize, stopIds), startGrammarWorker);
  const life = new DeviceLife(on);
  const engine = new Engine({
    runner,
    tokens,
    grammars,
    limits: { ...ENGINE_DEFAULTS, maxRunning: budget.maxRunning },
    onEvents,
    onBroken: life.announceLoss,
    now: () => performance.now(),
    speculation: parts.kernels.speculation ?? 'auto',
    ...(throttle ? { throttle } : {}),
  });
  return {
    engine,
    ...life.facts(),
    kernels,
    // Whoever waits for a first token needs every core.
    refused: life.refused(runner.compileLate(() => engine.prefilling)),
    layers: config.layers!,
    contextLength: runner.limits.contextLength,
    poolTokens: poolTokens(runner.limits.kvGroups, runner.limits.contextLength),
    gpuBuffers: () => runner.allocatedBuffers,
    lost: life.lost,
    destroy: () => {
      grammars.destroy();
      runner.destroy();
      life.destroy();
    },
  };
}

/** Chooses kernels and loads the model with them. */
async function loadRunner(
  on: ModelDevice,
  { checkpoint, config }: ReadModel,
  { quantisation, budget, kernels }: EngineParts,
): Promise<{ readonly runner: GpuRunner; readonly kernels: KernelReport }> {
  const { device } = on;
  const options: LoadOptions = {
    maxRows: Math.max(MAX_ROWS, budget.maxRunning),
    maxSequences: budget.maxRunning,
    kvBudgetBytes: budget.kvBytes,
    adapters: budget.adapters,
    maxKvBlocks: budget.maxRunning * Math.ceil(config.contextLength / BLOCK_TOKENS),
    late: true,
    ...(quantisation === 'none' ? {} : { quantisation }),
  };
  const { maxStorageBufferBindingSize, maxBufferSize } = device.limits;
  const needs = decoderKernels(checkpoint, config, {
    quantisation: options.quantisation,
    adapters: options.adapters,
    bindingLimit: Math.min(maxStorageBufferBindingSize, maxBufferSize),
  });
  return loadWithKernels(on, needs, kernels, (choices) =>
    loadDecoder(device, checkpoint, config, { ...options, choices }),
  );
}
