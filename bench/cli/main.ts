// The benches' command line, on Node 22; bench.js builds it and starts it.
import { mkdirSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { findBrowser } from '../../src/cli/find-browser.ts';
import type { ModelFiles } from '../../src/engine/read-model.ts';
import { relayFiles, type ServedManifest } from '../../src/node/model-files.ts';
import { openModel } from '../../src/relay/model/open-model.ts';
import { FileStore } from '../../src/testing/file-store.node.ts';
import { nodeGrammarWorkers } from '../../src/testing/grammar-worker.node.ts';
import { type BenchReport, verdict } from '../core/report.ts';
import { runRequest } from '../core/run-request.ts';
import type { AnyRequest } from '../core/setting.ts';
import { openDawn } from './dawn.ts';
import { isReadyForDawn, PROBE, probe, runWithDawn } from './dawn-process.ts';
import { runGpuSet } from './gpu-set.ts';
import { BrowserRuntime } from './in-browser.ts';
import { startModelServer } from './model-server.ts';
import { type BenchOptions, readOptions, USAGE } from './options.ts';

/** The build that this file is part of: node/ beside page/. */
const built = join(import.meta.dirname, '..');
const root = join(built, '..', '..');
const LOAD_MS = 120_000;
const log = (text: string) => console.log(text);

process.exitCode = await main().catch((error: unknown) => {
  // A sentence for what a user gave; where it came from, for what is a mistake here.
  const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
  console.error(name === 'TypeError' || name === 'ReferenceError' ? stack : `error: ${message}`);
  return 1;
});

async function main(): Promise<number> {
  const args = process.argv.slice(2);
  if (args.includes('--help')) {
    log(USAGE);
    return 0;
  }
  if (args[0] === PROBE) return probe();
  let options: BenchOptions;
  try {
    options = readOptions(args, root);
  } catch (error) {
    console.error(`error: ${(error as Error).message}\n${USAGE}`);
    return 2;
  }
  if (options.runtime === 'node' && !isReadyForDawn()) return runWithDawn(process.argv[1]!, args);
  if (options.what === 'gpu') return gpuSet(options, args);
  const reports = options.runtime === 'node' ? await inNode(options) : await inBrowser(options);
  keep(options, { args, reports });
  summarise(reports);
  return 0;
}

async function gpuSet(options: BenchOptions, args: readonly string[]): Promise<number> {
  const startedAt = performance.now();
  const parts = await runGpuSet(process.argv[1]!, options.runtime, log);
  const seconds = (performance.now() - startedAt) / 1000;
  const reports = parts.flatMap((part) => part.reports);
  const { adapter, software } = reports[0] ?? {};
  keep(options, { args, adapter, software, seconds, parts });
  log(`${adapter ?? 'no adapter'}${software ? ': a software adapter, no GPU' : ''}, in ${seconds.toFixed(0)} s`);
  for (const what of parts.flatMap(({ leftOut }) => leftOut)) log(`left out: ${what}`);
  summarise(reports);
  return reports.length > 0 ? 0 : 1;
}

async function inNode({ requests, model, quantisation }: BenchOptions): Promise<BenchReport[]> {
  // Kept: Dawn's device dies with its GPU object.
  const gpu = await openDawn();
  const host = {
    openGpu: async () => gpu,
    readFile: (path: string) => readFile(join(root, path)),
    startGrammarWorker: nodeGrammarWorkers,
    othersMs,
    collectGarbage: garbageCollector(),
    loadFiles,
    store: new FileStore(join(root, '.cache', 'tuner.json')),
    log,
  };
  if (model === undefined) return oneAfterTheOther(requests, (request) => runRequest(request, host));
  const { url, server } = await startModelServer(await openModel(model, { quantisation }));
  try {
    return await oneAfterTheOther(requests, (request) => runRequest(servedAt(request, url), host));
  } finally {
    server.close();
  }
}

async function inBrowser({ requests, model, quantisation }: BenchOptions): Promise<BenchReport[]> {
  const executablePath = await findBrowser();
  if (executablePath === undefined)
    throw new Error('no Chrome, Chromium or Edge is installed; `npm test` installs one');
  const served = model === undefined ? undefined : await openModel(model, { quantisation });
  const runtime = await BrowserRuntime.start(executablePath, join(built, 'page'), root, served);
  try {
    return await oneAfterTheOther(requests, (request) => runtime.run(request, log));
  } finally {
    await runtime.close();
  }
}

/** V8's own, which it names only where it is told to. */
function garbageCollector(): () => void {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as () => void;
}

/** What processes but this one, in which the software adapter runs too, had of the cores since the machine's start. */
function othersMs(): number {
  const { user, system } = process.cpuUsage();
  const busy = cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys + times.irq, 0);
  return busy - (user + system) / 1000;
}

/** Over HTTP: nothing keeps files here. */
function loadFiles<T>(url: string, { manifest }: ServedManifest, load: (files: ModelFiles) => Promise<T>): Promise<T> {
  const listener = { onProgress: () => {}, onTrouble: () => {} };
  return load(relayFiles(url, manifest, AbortSignal.timeout(LOAD_MS), listener));
}

/** `request` about the model that is served at `url`. */
function servedAt(request: AnyRequest, url: string): AnyRequest {
  if ('url' in request) return { ...request, url };
  return 'batches' in request ? { ...request, weights: { url } } : request;
}

async function oneAfterTheOther(
  requests: readonly AnyRequest[],
  run: (request: AnyRequest) => Promise<BenchReport>,
): Promise<BenchReport[]> {
  const reports: BenchReport[] = [];
  for (const request of requests) reports.push(await run(request));
  return reports;
}

function keep({ what, runtime, out }: BenchOptions, results: Readonly<Record<string, unknown>>): void {
  const at = new Date().toISOString();
  const { length: cores, 0: first } = cpus();
  const machine = { platform: process.platform, cores, processor: first?.model };
  mkdirSync(out, { recursive: true });
  const file = join(out, `${what}-${runtime}-${at.replaceAll(':', '-').slice(0, 19)}.json`);
  writeFileSync(file, `${JSON.stringify({ at, runtime, machine, ...results }, null, 1)}\n`);
  log(`\nKept in ${file}`);
}

function summarise(reports: readonly BenchReport[]): void {
  const lines = reports.flatMap(({ model, tables }) =>
    tables.flatMap(({ name, rows }) => rows.map((row) => ({ what: `${model} ${name} ${row.cells[0]}`, row }))),
  );
  const judged = lines.filter(({ row }) => row.holds !== undefined);
  const missed = judged.filter(({ row }) => !row.holds);
  log(`${judged.length - missed.length} bars hold, ${missed.length} missed`);
  for (const { what, row } of missed) log(`  ${what}: ${row.cells.join('  ')}  ${verdict(row)}`);
}
