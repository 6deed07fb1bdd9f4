import { afterEach } from 'vitest';
import { type GenerateResponse, SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import type { RelayOptions } from '../options.ts';
import { collect } from './grpc-client.ts';
import { RelayBench, requestOf } from './relay-bench.ts';

export const PROMPT = [1, 403, 407, 261, 378];

/** Call once in a test file: gives what starts a test's relay, which goes with its test. */
export function benchPerTest(): (options?: Partial<RelayOptions>) => Promise<RelayBench> {
  let bench: RelayBench | undefined;
  afterEach(async () => {
    await bench?.end();
    bench = undefined;
  });
  return async (options = {}) => {
    bench = await RelayBench.start(options);
    return bench;
  };
}

export function idsOf(messages: GenerateResponse[], index = 0): number[] {
  return messages.flatMap(({ response }) =>
    response.case === 'chunk' && response.value.index === index ? response.value.tokenIds : [],
  );
}

/** A stream that runs: its first chunk has come. `whole` settles with its end. */
export async function running(
  on: RelayBench,
  maxNewTokens: number,
  rest: Parameters<typeof requestOf>[2] = {},
  sampling: Parameters<typeof requestOf>[1] = {},
) {
  const request = requestOf(PROMPT, { ...sampling, maxNewTokens }, rest);
  const stream = on.client.stream(SglangScheduler.method.generate, request);
  const whole = collect(stream, 20_000);
  await new Promise((resolve) => stream.once('data', resolve));
  return { whole };
}
