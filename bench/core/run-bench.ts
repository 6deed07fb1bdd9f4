import { MAX_ROWS } from '../../src/engine/engine-defaults.ts';
import type { StartGrammarWorker } from '../../src/engine/grammar/grammar-messages.ts';
import type { ModelFiles } from '../../src/engine/read-model.ts';
import type { TunerStore } from '../../src/engine/tuner-store.ts';
import { requestDevice } from '../../src/gpu/request-device.ts';
import { Random } from '../../src/gpu/testing/random.ts';
import { WEIGHT_FORMATS } from '../../src/gpu/weight-format.ts';
import { loadDecoder } from '../../src/model/load-decoder.ts';
import { BLOCK_TOKENS } from '../../src/model/runner.ts';
import type { ServedManifest } from '../../src/node/model-files.ts';
import { attentionTable } from './attention-table.ts';
import { openModel } from './bench-model.ts';
import { contextTable } from './context-table.ts';
import { decodeTable } from './decode-table.ts';
import { describeAdapter } from './describe-adapter.ts';
import { embedTable } from './embed-table.ts';
import { grammarTable } from './grammar-table.ts';
import { hostTable } from './host-table.ts';
import { LORA_ADAPTERS, loraTable } from './lora-table.ts';
import { prefillTable } from './prefill-table.ts';
import { prefixTable } from './prefix-table.ts';
import { type BenchReport, type BenchTable, fixed, printTable, type TableName } from './report.ts';
import { measureRoofline } from './roofline.ts';
import { samplingTable } from './sampling-table.ts';
import type { BenchRequest, Setting } from './setting.ts';
import { speculationTable } from './speculation-table.ts';
import { traceTable } from './trace-table.ts';
import { Work } from './work.ts';

/** Where the code runs. */
export interface BenchHost {
  openGpu(): Promise<GPU>;
  readFile(path: string): Promise<Uint8Array>;
  startGrammarWorker(): Promise<StartGrammarWorker>;
  /** Where a tuner's choices are kept; absent: nowhere. */
  readonly store?: TunerStore;
  log(text: string): void;
  /** What other processes had of this machine's cores so far; absent: not known here. */
  readonly othersMs?: () => number;
  /** All that there is now; absent: not to be had here. */
  readonly collectGarbage?: () => void;
  /** Has `load` read the model that is served at `url`, from where this host keeps it, if it does. */
  loadFiles<T>(url: string, served: ServedManifest, load: (files: ModelFiles) => Promise<T>): Promise<T>;
}

const TABLES: Readonly<Record<TableName, (setting: Setting) => Promise<BenchTable>>> = {
  decode: decodeTable,
  prefix: prefixTable,
  context: contextTable,
  attention: attentionTable,
  host: hostTable,
  prefill: prefillTable,
  sampling: samplingTable,
  grammar: grammarTable,
  speculation: speculationTable,
  trace: traceTable,
  lora: loraTable,
  embed: embedTable,
};

const MAX_SEQUENCES = 64;
const KV_BYTES = 256 * 2 ** 20;
const SOFTWARE_CONTEXT = 512;

export async function runBench(request: BenchRequest, host: BenchHost): Promise<BenchReport> {
  const gpu = await host.openGpu();
  const { adapter, device } = await requestDevice(gpu);
  try {
    const { name: adapterName, software } = describeAdapter(adapter);
    const model = await openModel(request.model, host.readFile);
    const roofline = await measureRoofline(device, request.quick ? 3 : 5);
    host.log(
      `\n${model.name}, weights ${model.weights}, on ${adapterName}\nroofline: copy ${fixed(roofline.copyGBs)} GB/s (read + written), multiply-add ${fixed(roofline.gflops, 1)} GFLOP/s (f32)`,
    );
    const context = Math.min(
      request.context ?? (software ? SOFTWARE_CONTEXT : model.llama.contextLength),
      model.llama.contextLength,
    );
    const runner = await loadDecoder(device, model.checkpoint, model.config, {
      maxRows: MAX_ROWS,
      maxSequences: MAX_SEQUENCES,
      maxTopLogprobs: 0,
      contextLength: context,
      kvBudgetBytes: KV_BYTES,
      adapters: LORA_ADAPTERS,
      maxKvBlocks: MAX_SEQUENCES * Math.ceil(context / BLOCK_TOKENS),
    });
    const setting: Setting = {
      device,
      runner,
      model,
      work: new Work(model.llama, WEIGHT_FORMATS[model.weights].bytes, roofline),
      roofline,
      request,
      software,
      random: new Random(1),
      startGrammarWorker: () => host.startGrammarWorker(),
      othersMs: host.othersMs,
      collectGarbage: host.collectGarbage,
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
