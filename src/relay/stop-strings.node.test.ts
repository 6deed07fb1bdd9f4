import { expect, test, vi } from 'vitest';
import { Finished_Reason } from '../contract/gen/node_relay_pb.ts';
import { SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { benchPerTest, idsOf, PROMPT } from './testing/bench-per-test.ts';
import { collect } from './testing/grpc-client.ts';
import { requestOf } from './testing/relay-bench.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const start = benchPerTest();

test.each([true, false])(
  'a stop string is what matched, and none of its ids is held back: stream %s',
  async (stream) => {
    const on = await start();
    const node = await on.node({ manual: true });
    const request = requestOf(PROMPT, { maxNewTokens: 9, stop: ['the end', 'ünd'], ignoreEos: true }, { stream });
    const whole = collect(on.client.stream(SglangScheduler.method.generate, request));
    await node.until(() => node.jobs.length === 1);
    expect(node.jobs[0]?.sampling).toMatchObject({ stopStrings: ['the end', 'ünd'], stopTokenIds: [] });
    const jobId = node.jobs[0]?.jobId ?? 0n;
    await node.tell(
      // An EOS id, which ends nothing here.
      { jobId, event: { case: 'tokens', value: { tokenIds: [2, 9, 8] } } },
      {
        jobId,
        event: {
          case: 'finished',
          value: {
            reason: Finished_Reason.STOP,
            completionTokens: 3,
            matched: { case: 'matchedStopString', value: 'ünd' },
          },
        },
      },
    );
    const { messages } = await whole;
    expect(idsOf(messages)).toEqual(stream ? [2, 9, 8] : []);
    expect(messages.at(-1)?.response.value).toMatchObject({
      outputIds: [2, 9, 8],
      finishReason: 'stop',
      matchedStop: { case: 'matchedStopStr', value: 'ünd' },
    });
  },
);
