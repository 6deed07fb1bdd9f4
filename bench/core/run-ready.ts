import type { StartGrammarWorker } from '../../src/engine/grammar/grammar-messages.ts';
import { type LoadedEngine, loadEngine } from '../../src/engine/load-engine.ts';
import type { ModelFiles } from '../../src/engine/read-model.ts';
import { requestDevice } from '../../src/gpu/request-device.ts';
import { fetchManifest, type ServedManifest } from '../../src/node/model-files.ts';
import { greedy } from './bench-engine.ts';
import { describeAdapter } from './describe-adapter.ts';
import { type BenchReport, type BenchRow, type BenchTable, fixed, printTable } from './report.ts';
import { measureRoofline } from './roofline.ts';
import type { BenchHost } from './run-bench.ts';
import type { ReadyRequest } from './setting.ts';

/** Of SmolLM2-135M on a software adapter with two cores. */
const READY_MS = 3_000;
const BUDGET = { kvBytes: 256 * 2 ** 20, maxRunning: 64 };
const PROMPT_TOKENS = 64;
const NEW_TOKENS = 16;
const MOST_MS = 60_000;
/** Read at a time where all is read once. */
const READ_BYTES = 1 << 20;

/**
 * From nothing to a node that serves, as a page does it: manifest, header, weights in checked pieces from the browser's
 * store (under Node, which has none, over HTTP), kernels. Then a first request: what is left for later must not make that
 * one late.
 */
export async function runReady({ url, start, sampled }: ReadyRequest, host: BenchHost): Promise<BenchReport> {
  const gpu = await host.openGpu();
  const startGrammarWorker = await host.startGrammarWorker();
  const manifestOf = () => fetchManifest(url, AbortSignal.timeout(MOST_MS));
  if (start === 'kept') await host.loadFiles(url, await manifestOf(), readAll);
  performance.clearMeasures();
  const joinedAt = performance.now();
  const served = await manifestOf();
  const { manifest } = served;
  performance.measure('load manifest', { start: joinedAt });
  const node = await host.loadFiles(url, served, (files) =>
    FirstNode.load(gpu, files, served, start, startGrammarWorker),
  );
  performance.measure('ready', { start: joinedAt });
  const compiled = performance.getEntriesByName('compile').length;
  try {
    const times = await node.answer(sampled);
    performance.measure('ready and a first token', { start: joinedAt, end: times[0]! });
    performance.measure(`ready and ${NEW_TOKENS} tokens`, { start: joinedAt, end: times.at(-1)! });
  } finally {
    node.loaded.destroy();
  }
  const { adapter, device } = await requestDevice(gpu);
  try {
    const { name, software } = describeAdapter(adapter);
    host.log(`\n${manifest.name} on ${name}`);
    const judged = software && start === 'kept' && /^SmolLM2-135M/.test(manifest.name);
    const what = `${start === 'kept' ? 'Kept files' : 'A first start'}: from a join to ready, then a ${sampled ? 'drawn' : 'greedy'} request`;
    const tables = [stagesTable(what, joinedAt, judged), compileTable(joinedAt, compiled)];
    for (const table of tables) host.log(printTable(table));
    const roofline = await measureRoofline(device, 3);
    return { model: manifest.name, weights: 'its own', adapter: name, software, roofline, tables };
  } finally {
    device.destroy();
  }
}

async function readAll(files: ModelFiles): Promise<void> {
  for (const name of files.names) {
    const source = files.open(name)!;
    for (let at = 0; at < source.size; at += READ_BYTES) await source.read(at, Math.min(READ_BYTES, source.size - at));
  }
}

/** A loaded engine and the times of its tokens. */
class FirstNode {
  readonly loaded: LoadedEngine;
  readonly #times: number[];

  private constructor(loaded: LoadedEngine, times: number[]) {
    this.loaded = loaded;
    this.#times = times;
  }

  static async load(
    gpu: GPU,
    files: ModelFiles,
    { manifest }: ServedManifest,
    start: ReadyRequest['start'],
    grammars: StartGrammarWorker,
  ): Promise<FirstNode> {
    const times: number[] = [];
    const loaded = await loadEngine(gpu, {
      files,
      quantisation: manifest.quantisation,
      budget: BUDGET,
      startGrammarWorker: grammars,
      onEvents: (events) => {
        for (const event of events) {
          if (event.type === 'failed') throw new Error(`${event.code}: ${event.message}`);
          if (event.type === 'tokens') times.push(...event.ids.map(() => performance.now()));
        }
      },
      // Self-test and tuner are a first start's.
      kernels: { tune: start === 'first' ? 'auto' : 'off', precision: 'exact', version: '' },
    });
    return new FirstNode(loaded, times);
  }

  /** When each token of a first request came. */
  async answer(sampled: boolean): Promise<readonly number[]> {
    const ids = Array.from({ length: PROMPT_TOKENS }, (_, i) => 3 + i);
    const request = greedy(0n, ids, NEW_TOKENS, undefined);
    const sampling = { ...request.sampling, temperature: sampled ? 1 : 0, topP: 0.95 };
    this.loaded.engine.submit({ ...request, sampling });
    const until = performance.now() + MOST_MS;
    while (this.#times.length < NEW_TOKENS) {
      if (performance.now() > until)
        throw new Error(`${this.#times.length} of ${NEW_TOKENS} tokens came in ${MOST_MS} ms`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    return this.#times;
  }
}

function stagesTable(what: string, joinedAt: number, judged: boolean): BenchTable {
  const stages = performance.getEntriesByType('measure').filter(({ name }) => /^(load|ready)\b/.test(name));
  return {
    name: 'ready',
    title: `${what} of ${PROMPT_TOKENS} tokens for ${NEW_TOKENS} new ones (ms)`,
    columns: ['stage', 'from', 'to', 'took'],
    rows: stages.map(({ name, startTime, duration }) => {
      const [from, to] = [startTime - joinedAt, startTime + duration - joinedAt];
      return {
        cells: [name, fixed(from, 0), fixed(to, 0), fixed(duration, 0)],
        holds: name === 'ready' && judged ? duration <= READY_MS : undefined,
        bar: name === 'ready' && judged ? `≤ ${READY_MS} ms` : '',
        data: { from, to },
      };
    }),
  };
}

/** Pipelines by the time they took, of which several run at once; `before`: as many were there when it was ready. */
function compileTable(joinedAt: number, before: number): BenchTable {
  const compiled = performance.getEntriesByName('compile').map((entry, i) => ({ entry, late: i >= before }));
  compiled.sort((a, b) => b.entry.duration - a.entry.duration);
  const rows = compiled.map(({ entry, late }): BenchRow => {
    const { detail, startTime, duration } = entry as { readonly detail?: unknown } & typeof entry;
    const [from, to] = [startTime - joinedAt, startTime + duration - joinedAt];
    return {
      cells: [`${late ? 'after ready: ' : ''}${detail}`, fixed(from, 0), fixed(to, 0), fixed(duration, 0)],
      holds: undefined,
      bar: '',
      data: { from, to },
    };
  });
  return {
    name: 'compile',
    title: `Pipelines: ${rows.length} (ms)`,
    columns: ['pipeline', 'from', 'to', 'took'],
    rows,
  };
}
