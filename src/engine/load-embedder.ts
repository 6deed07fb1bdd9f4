import { CheckpointError } from '../checkpoint/checkpoint.ts';
import type { DenseModule } from '../checkpoint/dense-module.ts';
import type { ManifestQuantisation } from '../checkpoint/manifest.ts';
import { openSafetensors } from '../checkpoint/safetensors.ts';
import { type PoolingConfig, readPooling } from '../checkpoint/sentence-transformers.ts';
import type { ShaderError } from '../gpu/pipeline-cache.ts';
import { loadDecoderEmbedder } from '../model/decoder-embedder.ts';
import { decoderKernels } from '../model/decoder-kernels.ts';
import type { EmbedRunner } from '../model/embed-runner.ts';
import { encoderKernels } from '../model/encoder-kernels.ts';
import type { StoredDense } from '../model/encoder-tensors.ts';
import { findEncoder } from '../model/encoders.ts';
import { loadEncoder } from '../model/load-encoder.ts';
import { Embedder } from './embedder.ts';
import type { EngineBudget } from './engine-budget.ts';
import { EMBED_ROWS, EMBED_SEQUENCES, ENGINE_DEFAULTS } from './engine-defaults.ts';
import type { KernelSetup } from './kernel-setup.ts';
import { DeviceLife, type LoadedModel, loadOnDevice, loadWithKernels, type ModelDevice } from './loaded-model.ts';
import { fileText, type ModelFiles, type ReadHeader, readHeader } from './read-model.ts';
import type { StepThrottle } from './step-throttle.ts';
import { untilDeviceLost } from './until-device-lost.ts';

/** An embedder with the device that it runs on. */
export interface LoadedEmbedder extends LoadedModel {
  readonly embedder: Embedder;
}

/** What an embedder is made of. */
export interface EmbedderParts {
  readonly files: ModelFiles;
  readonly quantisation: ManifestQuantisation;
  /** Its KV bytes go to activations; a decoder's to its pool. */
  readonly budget: EngineBudget;
  readonly kernels: KernelSetup;
  readonly throttle?: StepThrottle;
}

/** How vectors are made where a model has no files of sentence-transformers: as SGLang does. */
const ENCODER_POOLING: PoolingConfig = { kind: 'cls', normalised: true };
const DECODER_POOLING: PoolingConfig = { kind: 'last', normalised: true };

/** A runner of either kind, as it is loaded. */
interface LoadedRunner extends EmbedRunner {
  readonly allocatedBuffers: number;
  compileLate(busy?: () => boolean): Promise<readonly ShaderError[]>;
}

/**
 * Puts an encoder, or a decoder whose last hidden states are its vectors, on `gpu`, and an embedder on it. Rejects as
 * loadEngine does; nothing stays allocated then.
 */
export function loadEmbedder(gpu: GPU, parts: EmbedderParts): Promise<LoadedEmbedder> {
  return loadOnDevice(gpu, (on) => load(on, parts));
}

async function load(on: ModelDevice, parts: EmbedderParts): Promise<LoadedEmbedder> {
  const { files, throttle } = parts;
  const reading = performance.now();
  const model = await readHeader(files);
  const encoder = findEncoder(model.config);
  const pooling =
    model.pooling ?? (await poolingOf(files, model.config.hiddenSize)) ?? (encoder ? ENCODER_POOLING : DECODER_POOLING);
  performance.measure('load header', { start: reading });
  const loading = encoder ? loadEncoderRunner(on, model, pooling, parts) : loadDecoderRunner(on, model, pooling, parts);
  const { runner, kernels } = await untilDeviceLost(on.device, loading);
  const life = new DeviceLife(on);
  const embedder = new Embedder({
    ...{ runner, throttle, maxWaiting: ENGINE_DEFAULTS.maxWaiting },
    labels: encoder?.readConfig(model.config).classifier?.labels,
    onBroken: life.announceLoss,
    now: () => performance.now(),
  });
  const { contextLength, longest, maxRows } = runner.limits;
  return {
    embedder,
    ...life.facts(),
    kernels,
    refused: life.refused(runner.compileLate(() => embedder.load().running > 0)),
    layers: model.config.layers!,
    contextLength,
    poolTokens: Math.max(longest, maxRows),
    gpuBuffers: () => runner.allocatedBuffers,
    lost: life.lost,
    destroy: () => {
      embedder.destroy();
      life.destroy();
    },
  };
}

function poolingOf(files: ModelFiles, hiddenSize: number): Promise<PoolingConfig | undefined> {
  const readText = async (name: string) => (files.names.includes(name) ? fileText(files, name) : undefined);
  return readPooling(readText, hiddenSize);
}

async function loadEncoderRunner(
  on: ModelDevice,
  { checkpoint, config }: ReadHeader,
  { kind, normalised, maxLength, dense: modules = [] }: PoolingConfig,
  { files, quantisation, budget, kernels }: EmbedderParts,
): Promise<{ runner: LoadedRunner; kernels: LoadedModel['kernels'] }> {
  const quantised = quantisation === 'none' ? {} : { quantisation };
  const dense = await Promise.all(modules.map((module) => openDense(files, module)));
  const needs = encoderKernels(checkpoint, config, { ...quantised, dense, bindingLimit: bindingLimit(on.device) });
  return loadWithKernels(on, needs, kernels, (choices) =>
    loadEncoder(on.device, checkpoint, config, {
      ...{ pooling: kind, normalised, dense, maxLength, choices, late: true, ...quantised },
      ...{ maxRows: EMBED_ROWS, maxSequences: EMBED_SEQUENCES, scratchBytes: budget.kvBytes },
    }),
  );
}

async function openDense(files: ModelFiles, module: DenseModule): Promise<StoredDense> {
  const source = files.open(module.file);
  if (!source) throw new CheckpointError(`the model has no ${module.file}`);
  return { checkpoint: await openSafetensors(source), module };
}

async function loadDecoderRunner(
  on: ModelDevice,
  { checkpoint, config }: ReadHeader,
  { kind, normalised, maxLength, dense }: PoolingConfig,
  { quantisation, budget, kernels }: EmbedderParts,
): Promise<{ runner: LoadedRunner; kernels: LoadedModel['kernels'] }> {
  if (kind !== 'last') {
    throw new CheckpointError(`a decoder's vectors are pooled by ${kind}; only the last token's is served`);
  }
  if (dense) throw new CheckpointError('a decoder with a Dense module is not served');
  const quantised = quantisation === 'none' ? {} : { quantisation };
  const needs = decoderKernels(checkpoint, config, {
    ...{ ...quantised, headless: true, bindingLimit: bindingLimit(on.device) },
  });
  return loadWithKernels(on, needs, kernels, (choices) =>
    loadDecoderEmbedder(on.device, checkpoint, config, {
      ...{ normalised, maxLength, choices, late: true, ...quantised },
      ...{ maxRows: EMBED_ROWS, maxSequences: EMBED_SEQUENCES, kvBudgetBytes: budget.kvBytes },
    }),
  );
}

function bindingLimit({ limits }: GPUDevice): number {
  return Math.min(limits.maxStorageBufferBindingSize, limits.maxBufferSize);
}
