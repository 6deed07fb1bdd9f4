import { bytesSource } from '../checkpoint/byte-source.ts';
import { CheckpointError } from '../checkpoint/checkpoint.ts';
import { parseModelConfig } from '../checkpoint/model-config.ts';
import { openSafetensors } from '../checkpoint/safetensors.ts';
import { readTokenBytes } from '../checkpoint/token-bytes.ts';
import { MAX_TOP_LOGPROBS } from '../contract/check-served.ts';
import { Engine } from '../engine/engine.ts';
import type { EngineEvent } from '../engine/event.ts';
import { requestDevice } from '../gpu/request-device.ts';
import { loadLlama } from '../model/load-llama.ts';
import { BLOCK_TOKENS } from '../model/runner.ts';
import type { AdapterFacts, NodeFacts } from './messages.ts';
import type { ModelFiles } from './model-files.ts';

const MAX_RUNNING = 64;
const MAX_WAITING = 256;
/** Rows of one step: a whole short prompt, and a prefill chunk that leaves the running rows their turn. */
const MAX_ROWS = 256;
const PREFILL_ROWS = 128;
const KV_BUDGET_BYTES = 256 << 20;

/** An engine with the device that it runs on. */
export interface LoadedEngine {
  readonly engine: Engine;
  readonly facts: NodeFacts;
  readonly layers: number;
  gpuBuffers(): number;
  /** Resolves with the reason when the device is lost, never when it is destroyed here. */
  readonly lost: Promise<string>;
  /** Frees the device and all it holds. */
  destroy(): void;
}

/** Puts the model on this browser's GPU. Rejects with an error whose message is for the user. */
export async function loadEngine(
  files: ModelFiles,
  onEvents: (events: readonly EngineEvent[]) => void,
): Promise<LoadedEngine> {
  if (!navigator.gpu) throw new Error('this browser offers no WebGPU to Web Workers: update it');
  const { adapter, device } = await requestDevice(navigator.gpu);
  try {
    const config = parseModelConfig(fileText(files, 'config.json'), 'config.json');
    const weights = weightFile(files);
    const checkpoint = await openSafetensors(bytesSource(weights.name, weights.bytes));
    const tokens = readTokenBytes(fileText(files, 'tokenizer.json'), 'tokenizer.json');
    const runner = await loadLlama(device, checkpoint, config, {
      maxRows: MAX_ROWS,
      maxSequences: MAX_RUNNING,
      maxTopLogprobs: Math.min(MAX_TOP_LOGPROBS, config.vocabSize),
      kvBudgetBytes: KV_BUDGET_BYTES,
      maxKvBlocks: MAX_RUNNING * Math.ceil(config.contextLength / BLOCK_TOKENS),
    });
    const engine = new Engine({
      runner,
      tokens,
      limits: { maxRunning: MAX_RUNNING, maxWaiting: MAX_WAITING, prefillRows: PREFILL_ROWS },
      onEvents,
      now: () => performance.now(),
    });
    let destroyed = false;
    return {
      engine,
      layers: Number(config.raw.num_hidden_layers),
      facts: {
        model: files.manifest.name,
        adapter: adapterFacts(adapter),
        features: [...device.features].sort(),
        contextLength: runner.limits.contextLength,
        poolTokens: runner.limits.blocks * BLOCK_TOKENS,
      },
      gpuBuffers: () => runner.allocatedBuffers,
      lost: new Promise((resolve) => {
        void device.lost.then((info) => {
          if (!destroyed) resolve(info.message || info.reason);
        });
      }),
      destroy: () => {
        destroyed = true;
        runner.destroy();
        device.destroy();
      },
    };
  } catch (error) {
    device.destroy();
    throw error;
  }
}

function fileText(files: ModelFiles, name: string): string {
  const text = files.text(name);
  if (text === undefined) throw new CheckpointError(`the model has no ${name}`);
  return text;
}

function weightFile(files: ModelFiles): { name: string; bytes: Uint8Array } {
  const names = files.manifest.files.map((file) => file.name).filter((name) => name.endsWith('.safetensors'));
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
