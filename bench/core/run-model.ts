import { MAX_ROWS } from '../../src/engine/engine-defaults.ts';
import type { KernelReport } from '../../src/engine/kernel-report.ts';
import { prepareKernels } from '../../src/engine/prepare-kernels.ts';
import { requestDevice } from '../../src/gpu/request-device.ts';
import { Random } from '../../src/gpu/testing/random.ts';
import { decoderKernels } from '../../src/model/decoder-kernels.ts';
import { describeDecoder } from '../../src/model/describe-decoder.ts';
import type { GpuRunner } from '../../src/model/gpu-runner.ts';
import { loadDecoder } from '../../src/model/load-decoder.ts';
import { plainDecoder } from '../../src/model/plain-decoder.ts';
import { BLOCK_TOKENS } from '../../src/model/runner.ts';
import { describeAdapter } from './describe-adapter.ts';
import { GenerationTimes } from './generation-times.ts';
import { kernelsTable, profileDecode } from './kernels-table.ts';
import type { ModelRequest } from './model-request.ts';
import { type LoadTimes, loadTable, type Measured, modelTable } from './model-table.ts';
import { type OpenedModel, openBenchModel } from './open-bench-model.ts';
import { type BenchReport, type BenchTable, fixed, printTable, type Roofline } from './report.ts';
import { measureRoofline } from './roofline.ts';
import type { BenchHost } from './run-bench.ts';
import { causalKeys, type Rows, Work } from './work.ts';

/** A part is left out where it would take longer than what is left at this share of the roofline. */
const LIKELY_SHARE = 0.25;
/** Prompts where the one that was asked for takes too long. */
const SHORTER_PROMPTS = [64, 16] as const;
/** Decode steps that are measured at least, and those that timing their kernels takes as long as. */
const LEAST_STEPS = 8;
const PROFILE_STEPS = 6;

export interface ModelSetting {
  readonly request: ModelRequest;
  readonly runner: GpuRunner;
  readonly model: OpenedModel;
  readonly work: Work;
  readonly random: Random;
}

/** One model from its load to decoded tokens, and where a step's time goes. */
export async function runModel(request: ModelRequest, host: BenchHost): Promise<BenchReport> {
  const startedAt = performance.now();
  const { adapter, device } = await requestDevice(await host.openGpu());
  try {
    const { name: adapterName, software } = describeAdapter(adapter);
    const roofline = await measureRoofline(device, 3);
    const openedAt = performance.now();
    const model = await openBenchModel(request);
    const { runner, kernels, times } = await load(device, model, request, openedAt, host);
    const work = workOf(model, runner, roofline);
    host.log(
      `\n${model.name}, weights ${model.weights}, on ${adapterName}${software ? ', a software adapter' : ''}\n` +
        `roofline: copy ${fixed(roofline.copyGBs)} GB/s (read + written), multiply-add ${fixed(roofline.gflops, 1)} GFLOP/s (f32)`,
    );
    const setting = { request, runner, model, work, random: new Random(1) };
    const leftMs = () => (request.budgetMs ?? Number.POSITIVE_INFINITY) - (performance.now() - startedAt);
    const { measured, tables, leftOut } = await measureBatches(setting, roofline, leftMs, host.log);
    const report = {
      ...{ model: model.name, weights: model.weights, adapter: adapterName, software, roofline, kernels, leftOut },
      tables: [loadTable(times, kernels, runner), modelTable(model, request, measured, software), ...tables],
    };
    for (const table of report.tables) host.log(printTable(table));
    for (const { name, why } of kernels.failed) host.log(`kernel not used: ${name}: ${why}`);
    for (const what of leftOut) host.log(`left out: ${what}`);
    return report;
  } finally {
    device.destroy();
  }
}

interface Loaded {
  readonly runner: GpuRunner;
  readonly kernels: KernelReport;
  readonly times: LoadTimes;
}

/** As a page's engine does it, but with no room for more than is measured. */
async function load(
  device: GPUDevice,
  model: OpenedModel,
  request: ModelRequest,
  openedAt: number,
  { store }: BenchHost,
): Promise<Loaded> {
  const { promptTokens, newTokens, batches } = request;
  const { checkpoint, config, quantisation } = model;
  const most = Math.max(...batches);
  const readMs = performance.now() - openedAt;
  const contextLength = Math.min(config.contextLength, promptTokens + newTokens + BLOCK_TOKENS);
  if (contextLength < promptTokens + newTokens) {
    throw new Error(`${promptTokens} and ${newTokens} tokens are over the context of ${config.contextLength}`);
  }
  const { maxStorageBufferBindingSize, maxBufferSize } = device.limits;
  const needs = decoderKernels(checkpoint, config, {
    quantisation,
    bindingLimit: Math.min(maxStorageBufferBindingSize, maxBufferSize),
  });
  const setup = { ...request.kernels, version: 'bench', store };
  const chosen = await prepareKernels(device, needs, setup, { results: [], careful: false, plain: false });
  const kernelsMs = performance.now() - openedAt - readMs;
  for (;;) {
    const runner = await loadDecoder(device, checkpoint, config, {
      maxRows: MAX_ROWS,
      maxSequences: most,
      maxTopLogprobs: 0,
      contextLength,
      kvBlocks: (most + 1) * Math.ceil(contextLength / BLOCK_TOKENS),
      choices: chosen.choices,
      ...(quantisation === undefined ? {} : { quantisation }),
    });
    if (await chosen.settle()) {
      await device.queue.onSubmittedWorkDone();
      const loadMs = performance.now() - openedAt - readMs - kernelsMs;
      return { runner, kernels: chosen.report(), times: { readMs, kernelsMs, loadMs } };
    }
    runner.destroy();
  }
}

function workOf({ config }: OpenedModel, runner: GpuRunner, roofline: Roofline): Work {
  const llama = plainDecoder(describeDecoder(config).config);
  const { layerWeights } = new Work(llama, 0, roofline);
  const weights = layerWeights + llama.vocabSize * llama.hiddenSize * (llama.tiedHead ? 1 : 2);
  return new Work(llama, runner.weightBytes / weights, roofline);
}

async function measureBatches(
  setting: ModelSetting,
  roofline: Roofline,
  leftMs: () => number,
  log: (text: string) => void,
): Promise<{ measured: Measured[]; tables: BenchTable[]; leftOut: string[] }> {
  const { request, work, model } = setting;
  const { promptTokens, newTokens, batches } = request;
  const measured: Measured[] = [];
  const tables: BenchTable[] = [];
  const leftOut: string[] = [];
  const seconds = (ms: number) => (Math.max(0, ms) / 1000).toFixed(0);
  for (const batch of batches) {
    log(`batch ${batch} …`);
    const likelyMs = (prompt: number) => {
      const decode = Math.min(newTokens, LEAST_STEPS) * work.leastMs(decodeRows(batch, prompt, newTokens));
      return (work.leastMs(promptRows(batch, prompt)) + decode) / LIKELY_SHARE;
    };
    const left = leftMs();
    const prompt = [promptTokens, ...SHORTER_PROMPTS].find((one) => one <= promptTokens && likelyMs(one) <= left);
    if (prompt !== promptTokens) {
      const why = `prompts of ${promptTokens} would take some ${seconds(likelyMs(promptTokens))} s, and ${seconds(left)} s are left`;
      const instead = prompt === undefined ? '' : `: they have ${prompt} tokens`;
      leftOut.push(`${model.name}, batch ${batch}: ${why}${instead}`);
    }
    if (prompt === undefined) continue;
    const times = new GenerationTimes(setting, batch, prompt);
    const prefillMs = await times.prefillMs();
    const decodeMs = await times.decodeMs(newTokens, leftMs());
    const profileMs = PROFILE_STEPS * decodeMs;
    const profile = profileMs <= leftMs() ? await profileDecode(setting, batch, prompt) : undefined;
    if (profile) tables.push(kernelsTable(batch, profile.step, roofline));
    else leftOut.push(`${model.name}, batch ${batch}: its kernels would take some ${seconds(profileMs)} s`);
    measured.push({
      batch,
      promptTokens: prompt,
      prefill: { ms: prefillMs, share: work.share(promptRows(batch, prompt), prefillMs) },
      decode: { ms: decodeMs, share: work.share(decodeRows(batch, prompt, newTokens), decodeMs) },
      dispatches: profile?.dispatches,
      kernelsMs: profile?.kernelsMs,
    });
  }
  return { measured, tables, leftOut };
}

function promptRows(batch: number, promptTokens: number): Rows {
  const rows = batch * promptTokens;
  return { rows, logitsRows: batch, keys: batch * causalKeys(0, promptTokens), steps: Math.ceil(rows / MAX_ROWS) };
}

/** Of a step in the middle of the new tokens. */
function decodeRows(batch: number, promptTokens: number, newTokens: number): Rows {
  return { rows: batch, logitsRows: batch, keys: batch * (promptTokens + Math.ceil(newTokens / 2)), steps: 1 };
}
