import { requestDevice } from '../../src/gpu/request-device.ts';
import { Random } from '../../src/gpu/testing/random.ts';
import type { GpuRunner } from '../../src/model/gpu-runner.ts';
import { loadLlama } from '../../src/model/load-llama.ts';
import { BLOCK_TOKENS } from '../../src/model/runner.ts';
import { attentionTable } from './attention-table.ts';
import { type BenchModel, type ModelChoice, openModel } from './bench-model.ts';
import { contextTable } from './context-table.ts';
import { decodeTable } from './decode-table.ts';
import { hostTable } from './host-table.ts';
import { prefillTable } from './prefill-table.ts';
import { prefixTable } from './prefix-table.ts';
import { type BenchReport, type BenchTable, fixed, printTable, type Roofline, type TableName } from './report.ts';
import { measureRoofline } from './roofline.ts';
import { traceTable } from './trace-table.ts';
import { Work } from './work.ts';

/** What to measure; plain data, so that it can be sent to a Web Worker. */
export interface BenchRequest {
  readonly model: ModelChoice;
  readonly tables: readonly TableName[];
  readonly quick: boolean;
  /** Longest context that the whole model is measured at; undefined: 512, or the model's own on a real GPU. */
  readonly context: number | undefined;
  readonly trace: TraceChoice;
}

export interface TraceChoice {
  readonly name: string;
  /** Lines of JSON, in Mooncake's format. */
  readonly text: string;
  /** Tokens that one hash of the trace stands for here; undefined: as many as fit the context, 512 at most. */
  readonly block: number | undefined;
  /** How much faster than written. */
  readonly speed: number;
}

/** Where the code runs. */
export interface BenchHost {
  openGpu(): Promise<GPU>;
  readFile(path: string): Promise<Uint8Array>;
  log(text: string): void;
}

/** What each table's measurement gets. */
export interface Setting {
  readonly device: GPUDevice;
  readonly runner: GpuRunner;
  readonly model: BenchModel;
  readonly work: Work;
  readonly roofline: Roofline;
  readonly request: BenchRequest;
  readonly software: boolean;
  readonly random: Random;
}

const TABLES: Readonly<Record<TableName, (setting: Setting) => Promise<BenchTable>>> = {
  decode: decodeTable,
  prefix: prefixTable,
  context: contextTable,
  attention: attentionTable,
  host: hostTable,
  prefill: prefillTable,
  trace: traceTable,
};

const MAX_SEQUENCES = 64;
const MAX_ROWS = 256;
const KV_BYTES = 256 * 2 ** 20;
const SOFTWARE_CONTEXT = 512;

export async function runBench(request: BenchRequest, host: BenchHost): Promise<BenchReport> {
  const gpu = await host.openGpu();
  const { adapter, device } = await requestDevice(gpu);
  try {
    const { info } = adapter;
    const software =
      info.isFallbackAdapter || /swiftshader|llvmpipe|lavapipe/i.test(`${info.architecture} ${info.description}`);
    const model = await openModel(request.model, host.readFile);
    const roofline = await measureRoofline(device, request.quick ? 3 : 5);
    const adapterName = [info.vendor, info.architecture, info.description].filter(Boolean).join(' ');
    host.log(
      `\n${model.name}, weights ${model.weights}, on ${adapterName}\nroofline: copy ${fixed(roofline.copyGBs)} GB/s (read + written), multiply-add ${fixed(roofline.gflops, 1)} GFLOP/s (f32)`,
    );
    const context = Math.min(
      request.context ?? (software ? SOFTWARE_CONTEXT : model.llama.contextLength),
      model.llama.contextLength,
    );
    const runner = await loadLlama(device, model.checkpoint, model.config, {
      maxRows: MAX_ROWS,
      maxSequences: MAX_SEQUENCES,
      maxTopLogprobs: 0,
      contextLength: context,
      kvBudgetBytes: KV_BYTES,
      maxKvBlocks: MAX_SEQUENCES * Math.ceil(context / BLOCK_TOKENS),
    });
    const setting: Setting = {
      device,
      runner,
      model,
      work: new Work(model.llama, model.weights, roofline),
      roofline,
      request,
      software,
      random: new Random(1),
    };
    const tables: BenchTable[] = [];
    for (const name of request.tables) {
      const table = await TABLES[name](setting);
      host.log(printTable(table));
      tables.push(table);
    }
    return { model: model.name, weights: model.weights, adapter: adapterName, software, roofline, tables };
  } finally {
    device.destroy();
  }
}

/** Ids for a prompt that shares nothing with any other. */
export function randomPrompt({ random, model }: Setting, length: number): number[] {
  return Array.from({ length }, () => random.integer(3, model.llama.vocabSize - 1));
}
