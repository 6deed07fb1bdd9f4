import { expect, test } from 'vitest';
import tokenizerJson from '../../models/stories260K/tokenizer.json?raw';
import { readTokenBytes } from '../checkpoint/token-bytes.ts';
import { loadDecoder } from '../model/load-decoder.ts';
import { storiesCheckpoint, storiesConfig } from '../model/testing/stories.ts';
import { testDevice } from '../testing/device.ts';
import cases from '../testing/golden/stories260K-cases.json';
import { ENGINE_DEFAULTS } from './engine-defaults.ts';
import type { EngineRequest } from './request.ts';
import { request, type SampleResult, Served, sampling, type Told } from './testing/serve.ts';

const tokens = readTokenBytes(tokenizerJson, 'tokenizer.json');

/** Parameters as the golden file has them. */
interface GoldenParams {
  readonly frequency_penalty?: number;
  readonly presence_penalty?: number;
  readonly repetition_penalty?: number;
  readonly min_new_tokens?: number;
  readonly logit_bias?: Readonly<Record<string, number>>;
}

function goldenSampling(params: GoldenParams = {}) {
  return sampling({
    frequencyPenalty: params.frequency_penalty ?? 0,
    presencePenalty: params.presence_penalty ?? 0,
    repetitionPenalty: params.repetition_penalty ?? 1,
    minNewTokens: params.min_new_tokens ?? 0,
    maskedStopIds: cases.eos_ids,
    biases: Object.entries(params.logit_bias ?? {}).map(([id, bias]) => ({ id: Number(id), bias })),
  });
}

function expectTold({ logprobs, topLogprobs }: Told, golden: readonly (number | null)[], top5: readonly unknown[]) {
  expect(logprobs).toHaveLength(golden.length);
  golden.forEach((logprob, i) => {
    if (logprob === null) {
      expect(logprobs[i]).toBeUndefined();
      expect(topLogprobs[i]!.ids).toHaveLength(0);
      return;
    }
    expect(Math.abs(logprobs[i]! - logprob)).toBeLessThan(cases.tolerance.logprob);
    const best = top5[i] as readonly (readonly [number, number])[];
    expect([...topLogprobs[i]!.ids]).toEqual(best.map(([id]) => id));
    best.forEach(([, value], j) => {
      expect(Math.abs(topLogprobs[i]!.logprobs[j]! - value)).toBeLessThan(cases.tolerance.logprob);
    });
  });
}

function expectHidden(hidden: Float32Array | undefined, golden: readonly number[]): void {
  expect(hidden).toHaveLength(golden.length);
  golden.forEach((value, i) => {
    expect(Math.abs(hidden![i]! - value)).toBeLessThan(cases.tolerance.hidden);
  });
}

interface Golden {
  readonly asked: EngineRequest;
  readonly check: (result: SampleResult) => void;
}

/** Every case of the golden file, each as a request of its own number. */
function goldenRequests(): Golden[] {
  const requests: Golden[] = [];
  const add = (ids: readonly number[], more: Partial<EngineRequest>, check: Golden['check']) =>
    requests.push({ asked: request(BigInt(requests.length + 1), ids, { sampling: goldenSampling(), ...more }), check });
  for (const one of cases.cases) {
    const told = { outputLogprobs: true, topLogprobs: 5, logprobStart: 0, hiddenStates: true };
    add(one.ids, { ...told, maxNewTokens: one.greedy.length }, ({ ids, input, output }) => {
      expect(ids).toEqual(one.greedy);
      expectTold(output, one.output_logprobs, one.output_top5);
      expectTold(input, one.input_logprobs, one.input_top5);
      expectHidden(output.hiddenStates[0], one.last_prompt_hidden);
    });
    add(one.ids, { ...told, maxNewTokens: 0 }, ({ ids, input, end }) => {
      expect(ids).toEqual([]);
      expectTold(input, one.input_logprobs, one.input_top5);
      if (end?.type !== 'finished') throw new Error('it did not finish');
      expect(end.reason).toBe('length');
      expectHidden(end.hiddenState, one.last_prompt_hidden);
    });
  }
  for (const { ids, params, output_ids } of cases.penalties) {
    const more = { sampling: goldenSampling(params as GoldenParams), maxNewTokens: output_ids.length };
    add(ids, more, (result) => expect(result.ids).toEqual(output_ids));
  }
  for (const one of cases.stops) {
    const { ids, stop, max_new_tokens: maxNewTokens, output_ids } = one;
    const params = (one as { params?: GoldenParams }).params ?? {};
    const more = { sampling: goldenSampling(params), stopStrings: stop, maxNewTokens };
    add(ids, more, (result) => expectEnd(result, output_ids, one));
  }
  for (const one of cases.eos) {
    const { max_new_tokens: maxNewTokens, stop_ids = [] } = one.params as {
      max_new_tokens: number;
      stop_ids?: number[];
    };
    const more = { stopTokenIds: [...cases.eos_ids, ...stop_ids], maxNewTokens };
    add(one.ids, more, (result) => expectEnd(result, one.output_ids, one));
  }
  return requests;
}

function expectEnd(
  { ids, end }: SampleResult,
  outputIds: readonly number[],
  { finish_reason, matched_stop }: { finish_reason: string; matched_stop: string | number | null },
): void {
  expect(ids).toEqual(outputIds);
  expect(end).toMatchObject({ reason: finish_reason, matched: matched_stop ?? undefined });
}

test('every golden case through the engine, all at once', async () => {
  const runner = await loadDecoder(await testDevice(), await storiesCheckpoint(), storiesConfig(), {
    kvBlocks: 200,
    maxRows: 128,
    maxSequences: 16,
  });
  const served = new Served(runner, tokens, { ...ENGINE_DEFAULTS, maxRunning: 16 });
  const all = goldenRequests();
  for (const { asked } of all) served.submit(asked);
  await served.until(() => served.allEnded());
  for (const { asked, check } of all) check(served.result(asked.jobId));
  expect(served.engine.idle).toBe(true);
  runner.destroy();
}, 300_000);
