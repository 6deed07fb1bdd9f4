import type { KernelReport } from '../../src/engine/kernel-report.ts';
import type { GpuRunner } from '../../src/model/gpu-runner.ts';
import type { ModelRequest } from './model-request.ts';
import type { OpenedModel } from './open-bench-model.ts';
import { type BenchTable, fixed, percent } from './report.ts';

/** What was measured with so many sequences at once. */
export interface Measured {
  readonly batch: number;
  /** Of each prompt. */
  readonly promptTokens: number;
  readonly prefill: { readonly ms: number; readonly share: number };
  /** Of one step. */
  readonly decode: { readonly ms: number; readonly share: number };
  readonly dispatches: number | undefined;
  readonly kernelsMs: number | undefined;
}

/** Step over its kernels, on a software adapter. */
const MOST_OVERHEAD = 1.18;

/** On a software adapter with two cores: tokens a second, of one sequence. */
interface SoftwareBar {
  readonly model: RegExp;
  readonly decode: number;
  readonly prefill: number | undefined;
}

/** What peers' prefill was measured with. */
const PEER_PROMPT = 64;

/** 25 and 4 times Transformers.js 4.3.2 (0.089 and 2.2); ten times WebLLM 0.2.79. See docs/benchmarks.md. */
const SOFTWARE_BARS: readonly SoftwareBar[] = [
  { model: /^SmolLM2-135M/, decode: 25 * 0.089, prefill: 4 * 2.2 },
  { model: /^Qwen2-0\.5B/, decode: 0.6, prefill: undefined },
];

export function modelTable(
  { name }: OpenedModel,
  { newTokens }: ModelRequest,
  measured: readonly Measured[],
  software: boolean,
): BenchTable {
  const single = measured.find(({ batch }) => batch === 1);
  return {
    name: 'model',
    title: `${name}, up to ${newTokens} new tokens a prompt (engine; decode: the median step)`,
    columns: [
      ...['batch', 'prompt', 'prefill tokens/s', 'of roofline', 'ms a step', 'decode tokens/s', 'of roofline'],
      ...['dispatches a step', 'a token', 'kernels, ms', 'step ÷ kernels'],
    ],
    rows: measured.map((one) => {
      const { batch, promptTokens, prefill, decode, dispatches, kernelsMs } = one;
      const prefillRate = (batch * promptTokens * 1000) / prefill.ms;
      const rate = (batch * 1000) / decode.ms;
      const overhead = kernelsMs && decode.ms / kernelsMs;
      return {
        cells: [
          ...[String(batch), String(promptTokens), fixed(prefillRate, 1), percent(prefill.share)],
          ...[fixed(decode.ms), fixed(rate, 2), percent(decode.share)],
          ...[dispatches === undefined ? '–' : String(dispatches), fixed(dispatches && dispatches / batch, 1)],
          ...[fixed(kernelsMs), fixed(overhead)],
        ],
        ...(software
          ? softwareBar(name, batch, rate, promptTokens === PEER_PROMPT ? prefillRate : undefined, overhead)
          : hardwareBar(one, single && 1000 / single.decode.ms, rate)),
        data: {
          ...{
            batch,
            promptTokens,
            prefillMs: prefill.ms,
            prefillTokensPerSecond: prefillRate,
            prefillShare: prefill.share,
          },
          ...{ stepMs: decode.ms, tokensPerSecond: rate, share: decode.share, dispatches, kernelsMs, overhead },
        },
      };
    }),
  };
}

/** From nothing to a runner that takes steps, in milliseconds. */
export interface LoadTimes {
  /** Header and config. */
  readonly readMs: number;
  /** Self-test and tuner. */
  readonly kernelsMs: number;
  /** Weights, and compiling what the tuner didn't. */
  readonly loadMs: number;
}

export function loadTable(
  { readMs, kernelsMs, loadMs }: LoadTimes,
  { from, precision, passed, failed }: KernelReport,
  { weightBytes, kvBytes, allocatedBytes }: GpuRunner,
): BenchTable {
  const mebibytes = (bytes: number) => fixed(bytes / 2 ** 20, 1);
  const tried = from === 'off' ? 'none' : `${passed} passed, ${failed.length} failed`;
  return {
    name: 'load',
    title: `Load (kernels: ${precision}; tried: ${tried})`,
    columns: [
      ...['header, ms', 'self-test and tuner, ms', 'weights, ms', 'in all, ms'],
      ...['weights, MiB', 'KV, MiB', 'GPU memory in all, MiB'],
    ],
    rows: [
      {
        cells: [
          ...[readMs, kernelsMs, loadMs, readMs + kernelsMs + loadMs].map((ms) => fixed(ms, 0)),
          ...[weightBytes, kvBytes, allocatedBytes].map(mebibytes),
        ],
        holds: undefined,
        bar: '',
        data: {
          ...{ readMs, kernelsMs, loadMs, weightBytes, kvBytes, allocatedBytes },
          ...{ kernelsPassed: passed, kernelsFailed: failed.length },
        },
      },
    ],
  };
}

function softwareBar(
  name: string,
  batch: number,
  rate: number,
  prefillRate: number | undefined,
  overhead: number | undefined,
) {
  const peer = batch === 1 ? SOFTWARE_BARS.find(({ model }) => model.test(name)) : undefined;
  const judged: { readonly holds: boolean; readonly bar: string }[] = [];
  if (peer) judged.push({ holds: rate >= peer.decode, bar: `decode ≥ ${fixed(peer.decode)}` });
  if (peer?.prefill !== undefined && prefillRate !== undefined)
    judged.push({ holds: prefillRate >= peer.prefill, bar: `prefill ≥ ${fixed(peer.prefill, 1)}` });
  if (overhead !== undefined)
    judged.push({ holds: overhead <= MOST_OVERHEAD, bar: `step ÷ kernels ≤ ${MOST_OVERHEAD}` });
  return verdictOf(judged);
}

function hardwareBar({ batch, prefill, decode }: Measured, singleRate: number | undefined, rate: number) {
  const judged: { readonly holds: boolean; readonly bar: string }[] = [];
  if (batch === 1) {
    judged.push({ holds: decode.share >= 0.6, bar: 'decode ≥ 60 % of the copy' });
    judged.push({ holds: prefill.share >= 0.5, bar: 'prefill ≥ 50 % of multiply-add' });
  }
  if (batch === 8 && singleRate !== undefined) judged.push({ holds: rate >= 5 * singleRate, bar: '≥ 5 × batch 1' });
  return verdictOf(judged);
}

function verdictOf(judged: readonly { readonly holds: boolean; readonly bar: string }[]) {
  const said = judged.map(({ holds, bar }) => (holds ? bar : `${bar} missed`)).join(', ');
  return { holds: judged.length === 0 ? undefined : judged.every(({ holds }) => holds), bar: said };
}
