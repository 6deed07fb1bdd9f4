import type { BenchReport } from './report.ts';
import { type BenchHost, runBench } from './run-bench.ts';
import { runKernels } from './run-kernels.ts';
import { runModel } from './run-model.ts';
import { runReady } from './run-ready.ts';
import type { AnyRequest } from './setting.ts';

export function runRequest(request: AnyRequest, host: BenchHost): Promise<BenchReport> {
  if ('batches' in request) return runModel(request, host);
  if ('url' in request) return runReady(request, host);
  return 'model' in request ? runBench(request, host) : runKernels(request, host);
}
