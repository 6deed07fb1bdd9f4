import type { Runner } from '../../model/runner.ts';
import type { EngineLimits } from '../engine-options.ts';
import type { Grammars } from '../grammars.ts';
import type { LoraFiles } from '../lora-adapters.ts';
import type { EngineRequest } from '../request.ts';
import { TINY_TOKENS } from './any-request.ts';
import { GatedRunner } from './gated-runner.ts';
import { type SampleResult, Served } from './serve.ts';

/** What must not depend on who else runs. */
export function outcome({ ids, input, output, end }: SampleResult) {
  const told = { ids, input, output };
  if (end?.type !== 'finished') return { ...told, code: end?.code, message: end?.message };
  const { reason, matched, completionTokens, hiddenState } = end;
  return { ...told, reason, matched, completionTokens, hiddenState };
}
export type Outcome = ReturnType<typeof outcome>;

/** What is told of a sample whose first `emitted` tokens were made, and told, elsewhere. */
export function takenOver(whole: Outcome, emitted: number): Outcome {
  if (emitted === 0) return whole;
  const { logprobs, topLogprobs, idLogprobs, hiddenStates } = whole.output;
  return {
    ...whole,
    input: { logprobs: [], topLogprobs: [], idLogprobs: [], start: undefined },
    output: {
      logprobs: logprobs.slice(emitted),
      topLogprobs: topLogprobs.slice(emitted),
      idLogprobs: idLogprobs.slice(emitted),
      hiddenStates: hiddenStates.slice(emitted),
    },
  };
}

/** The part of `whole` that a sample had when it was aborted with so much of it. */
export function cutLike(whole: Outcome, { ids, input, output }: SampleResult): Partial<Outcome> {
  const told = output.logprobs.length;
  return {
    ids: whole.ids.slice(0, ids.length),
    input: {
      start: input.start,
      logprobs: whole.input.logprobs.slice(0, input.logprobs.length),
      topLogprobs: whole.input.topLogprobs.slice(0, input.topLogprobs.length),
      idLogprobs: whole.input.idLogprobs.slice(0, input.idLogprobs.length),
    },
    output: {
      logprobs: whole.output.logprobs.slice(0, told),
      topLogprobs: whole.output.topLogprobs.slice(0, output.topLogprobs.length),
      idLogprobs: whole.output.idLogprobs.slice(0, output.idLogprobs.length),
      hiddenStates: whole.output.hiddenStates.slice(0, output.hiddenStates.length),
    },
  };
}

/** What a sample of a request brings when nothing else runs on `open`'s runner, with `adapters`. */
export function outcomesAlone(
  open: () => Promise<Runner>,
  limits: EngineLimits,
  grammars: Grammars,
  adapters: readonly LoraFiles[] = [],
) {
  const known = new Map<string, Promise<Outcome>>();
  return (asked: EngineRequest, index: number): Promise<Outcome> => {
    const key = JSON.stringify({ ...asked, jobId: 0, samples: index }, (_, value) => {
      if (value instanceof Float32Array) return [...value.subarray(0, 4)];
      return typeof value === 'bigint' ? String(value) : value;
    });
    const outcomeOf = known.get(key) ?? compute();
    known.set(key, outcomeOf);
    return outcomeOf;

    async function compute(): Promise<Outcome> {
      const runner = new GatedRunner(await open());
      await runner.openForGood();
      const quietLimits = { ...limits, prefixCache: false, stepsInFlight: 1 };
      const quiet = new Served(runner, TINY_TOKENS, quietLimits, { grammars });
      for (const adapter of adapters) await quiet.engine.lora.load(adapter);
      // The first sample tells the prompt's logprobs.
      const logprobStart = index === asked.samples[0]!.index ? asked.logprobStart : undefined;
      const samples = [{ index, credit: 1_000_000, emittedIds: [] }];
      const result = await quiet.serve({ ...asked, jobId: 1n, logprobStart, samples });
      await runner.quiet();
      return outcome(result);
    }
  };
}
