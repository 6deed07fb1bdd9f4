import type { SearchedRow } from '../gpu/sampler.ts';
import type { Runner } from '../model/runner.ts';
import type { EngineRequest } from './request.ts';
import type { Sequence } from './sequence.ts';

/** Keeps a sequence from being admitted while kernels of its rows are compiled; `onThere` is called once they are. */
export function awaitKernels(runner: Runner, sequence: Sequence, onThere: () => void): void {
  const due = runner.awaits?.(searchedRow(sequence.request));
  if (!due) return;
  sequence.awaitsKernels = true;
  void due.then(() => {
    sequence.awaitsKernels = false;
    onThere();
  });
}

/** What a request's rows ask of the sampler's kernels at most. */
function searchedRow(request: EngineRequest): SearchedRow {
  const { sampling, outputLogprobs, logprobStart, topLogprobs, logprobIds } = request;
  return {
    ...{ sampled: sampling.temperature > 0, topK: sampling.topK, top: topLogprobs },
    logprob: outputLogprobs || logprobStart !== undefined,
    idLogprobs: logprobIds.length > 0,
  };
}
