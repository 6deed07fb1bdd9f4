import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BenchReport } from '../core/report.ts';

/** All of it, with what starting and ending take. */
const MOST_MS = 285_000;
/** What a part that watches its own time needs to end by itself, before it is ended. */
const GRACE_MS = 10_000;
/** A part isn't begun with less. */
const LEAST_MS = 15_000;

const KILL_MS = 3_000;

interface Part {
  readonly name: string;
  readonly args: readonly string[];
  readonly mostMs: number;
  /** It leaves out by itself what would end later than --budget says. */
  readonly watchesTime: boolean;
}

/** What became of a part. */
export interface PartResult {
  readonly name: string;
  readonly args: readonly string[];
  readonly seconds: number;
  readonly reports: readonly BenchReport[];
  /** What wasn't measured, and why. */
  readonly leftOut: readonly string[];
}

const model = (config: string, mostMs: number): Part => ({
  name: `${config} q4`,
  args: [
    'model',
    '--config',
    config,
    '--quant',
    'q4',
    '--prompt-tokens',
    '512',
    '--new-tokens',
    '64',
    '--batch',
    '1,8',
  ],
  mostMs,
  watchesTime: true,
});

const kernels = (formats: string): Part => ({
  name: `kernels ${formats}`,
  args: ['kernels', '--formats', formats, '--quick'],
  mostMs: 40_000,
  watchesTime: false,
});

/** What comes first is measured on the slowest machine too. */
const PARTS: readonly Part[] = [
  kernels('q4-32-f16'),
  model('SmolLM2-135M', 70_000),
  {
    name: 'sampling',
    args: ['engine', '--config', 'stories260K', '--tables', 'sampling', '--quick'],
    mostMs: 60_000,
    watchesTime: false,
  },
  model('Llama-3.2-1B', 80_000),
  model('Qwen2-0.5B', 60_000),
  kernels('q8-32-f16,f16'),
];

/** Runs the set, a process a part, and never longer than five minutes. */
export async function runGpuSet(
  program: string,
  runtime: 'node' | 'browser',
  log: (text: string) => void,
): Promise<PartResult[]> {
  const startedAt = performance.now();
  const results: PartResult[] = [];
  for (const { name, args, mostMs, watchesTime } of PARTS) {
    const left = Math.min(mostMs, MOST_MS - (performance.now() - startedAt));
    if (left < LEAST_MS) {
      results.push({ name, args, seconds: 0, reports: [], leftOut: [`${name}: no time was left`] });
      continue;
    }
    log(`\n=== ${name}, at most ${(left / 1000).toFixed(0)} s`);
    const budget = watchesTime ? ['--budget', String(Math.floor((left - GRACE_MS) / 1000))] : [];
    const begunAt = performance.now();
    const { reports, problem } = await runPart(program, [...args, ...budget, '--runtime', runtime], left);
    const leftOut = reports.flatMap((report) => report.leftOut ?? []);
    if (problem !== undefined) leftOut.push(`${name}: ${problem}`);
    results.push({ name, args, seconds: (performance.now() - begunAt) / 1000, reports, leftOut });
  }
  return results;
}

/** One bench in a process of its own, which is ended after `mostMs`: a GPU that hangs hangs nothing else. */
async function runPart(program: string, args: readonly string[], mostMs: number) {
  const out = mkdtempSync(join(tmpdir(), 'shoal-bench-'));
  try {
    const ended = await new Promise<string | undefined>((resolve) => {
      const child = spawn(process.execPath, [program, ...args, '--out', out], { stdio: 'inherit' });
      let late = false;
      const timer = setTimeout(() => {
        late = true;
        // It takes its browser along, unless it hangs.
        child.kill('SIGTERM');
        setTimeout(() => child.kill('SIGKILL'), KILL_MS).unref();
      }, mostMs);
      child.on('error', (error) => resolve(error.message));
      child.on('exit', (status, signal) => {
        clearTimeout(timer);
        if (late) resolve(`it took longer than ${(mostMs / 1000).toFixed(0)} s`);
        else resolve(status === 0 ? undefined : `it ended with ${signal ?? `status ${status}`}`);
      });
    });
    const reports = readdirSync(out).flatMap(
      (file) => (JSON.parse(readFileSync(join(out, file), 'utf8')) as { reports: BenchReport[] }).reports,
    );
    return { reports, problem: ended };
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}
