import type { ManifestQuantisation } from '../checkpoint/manifest.ts';
import { TrialLost } from '../gpu/device-watch.ts';
import { requestDevice } from '../gpu/request-device.ts';
import { KernelLost } from '../gpu/self-test.ts';
import { decoderKernels } from '../model/decoder-kernels.ts';
import type { GpuRunner } from '../model/gpu-runner.ts';
import { type LoadOptions, loadDecoder } from '../model/load-decoder.ts';
import { BLOCK_TOKENS } from '../model/runner.ts';
import type { AdapterFacts } from './adapter-facts.ts';
import { Engine } from './engine.ts';
import type { EngineBudget } from './engine-budget.ts';
import { ENGINE_DEFAULTS, MAX_ROWS } from './engine-defaults.ts';
import type { EngineEvent } from './event.ts';
import type { StartGrammarWorker } from './grammar/grammar-messages.ts';
import { GrammarPool } from './grammar/grammar-pool.ts';
import { grammarVocabulary } from './grammar/grammar-vocabulary.ts';
import type { KernelReport } from './kernel-report.ts';
import type { KernelSetup } from './kernel-setup.ts';
import { type LostKernels, prepareKernels } from './prepare-kernels.ts';
import { type ModelFiles, type ReadModel, readModel } from './read-model.ts';
import type { StepThrottle } from './step-throttle.ts';
import { untilDeviceLost } from './until-device-lost.ts';

/** Devices that may be lost to kernels that are tried, until only the plain ones are. */
const MOST_LOSSES = 3;

/** An engine with the device that it runs on. */
export interface LoadedEngine {
  readonly engine: Engine;
  readonly adapter: AdapterFacts;
  /** Names of the WebGPU features in use. */
  readonly features: readonly string[];
  readonly kernels: KernelReport;
  /** Resolves, once all is compiled that others stand in for at first, with what the device refused of it. */
  readonly refused: Promise<KernelReport['failed']>;
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
export async function loadEngine(gpu: GPU, parts: EngineParts): Promise<LoadedEngine> {
  let lost: LostKernels = { results: [], careful: false, plain: false };
  for (let losses = 1; ; losses++) {
    try {
      return await loadOnce(gpu, parts, lost);
    } catch (error) {
      if (!(error instanceof KernelLost || error instanceof TrialLost) || losses > MOST_LOSSES) throw error;
      const results = [...lost.results, ...(error instanceof KernelLost ? error.results : [])];
      lost = { results, careful: true, plain: losses === MOST_LOSSES };
    }
  }
}

async function loadOnce(gpu: GPU, parts: EngineParts, lostKernels: LostKernels): Promise<LoadedEngine> {
  const { budget, startGrammarWorker, onEvents, throttle } = parts;
  const start = performance.now();
  const { adapter, device } = await requestDevice(gpu);
  performance.measure('load device', { start });
  try {
    const reading = performance.now();
    const model = await readModel(parts.files);
    performance.measure('load header', { start: reading });
    const { config, tokens, stopIds } = model;
    const loading = loadRunner(device, model, parts, lostKernels);
    const { runner, kernels } = await untilDeviceLost(device, loading);
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
      ...(throttle ? { throttle } : {}),
    });
    // Whoever waits for a first token needs every core.
    const refused = runner
      .compileLate(() => engine.prefilling)
      .then(
        (errors) => errors.map(({ kernel, message }) => ({ name: kernel, why: message })),
        (error: Error) => {
          announceLoss(error.message);
          return [];
        },
      );
    return {
      engine,
      adapter: adapterFacts(adapter),
      features: [...device.features].sort(),
      kernels,
      refused,
      layers: Number(config.raw.num_hidden_layers),
      contextLength: runner.limits.contextLength,
      poolTokens: runner.limits.kvGroups[0]!.blocks * BLOCK_TOKENS,
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

/** Chooses kernels and loads the model with them: twice where its scales turn out to ask for others, and these fail. */
async function loadRunner(
  device: GPUDevice,
  { checkpoint, config }: ReadModel,
  { quantisation, budget, kernels: setup }: EngineParts,
  lost: LostKernels,
): Promise<{ readonly runner: GpuRunner; readonly kernels: KernelReport }> {
  const options: LoadOptions = {
    maxRows: Math.max(MAX_ROWS, budget.maxRunning),
    maxSequences: budget.maxRunning,
    kvBudgetBytes: budget.kvBytes,
    maxKvBlocks: budget.maxRunning * Math.ceil(config.contextLength / BLOCK_TOKENS),
    late: true,
    ...(quantisation === 'none' ? {} : { quantisation }),
  };
  const start = performance.now();
  const { maxStorageBufferBindingSize, maxBufferSize } = device.limits;
  const needs = decoderKernels(checkpoint, config, {
    quantisation: options.quantisation,
    bindingLimit: Math.min(maxStorageBufferBindingSize, maxBufferSize),
  });
  const prepared = await prepareKernels(device, needs, setup, lost);
  performance.measure('load kernels', { start });
  for (;;) {
    const runner = await loadDecoder(device, checkpoint, config, { ...options, choices: prepared.choices });
    try {
      if (await prepared.settle()) return { runner, kernels: prepared.report() };
    } catch (error) {
      runner.destroy();
      throw error;
    }
    // What was chosen instead is asked for now, and known: this ends.
    runner.destroy();
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
