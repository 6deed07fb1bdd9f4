import { Writable } from 'node:stream';
import { toBinary } from '@bufbuild/protobuf';
import { Metadata } from '@grpc/grpc-js';
import { pino } from 'pino';
import { expect, test, vi } from 'vitest';
import { GenerateRequestSchema, SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { requestIds } from './request-log.ts';
import { collect } from './testing/grpc-client.ts';
import { RelayBench, requestOf } from './testing/relay-bench.ts';
import { readTrace } from './trace-context.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';

test('of each request one line: its ids, counts and end, and nothing of its text', async () => {
  const lines: Record<string, unknown>[] = [];
  const stream = new Writable({
    write(line, _encoding, done) {
      lines.push(JSON.parse(String(line)));
      done();
    },
  });
  const bench = await RelayBench.start({ logger: pino({ level: 'info' }, stream) });
  try {
    const node = await bench.node();
    const metadata = new Metadata();
    metadata.set('traceparent', `00-${TRACE}-${SPAN}-01`);
    const call = (requestId: string, id: number) =>
      bench.client.channel.makeServerStreamRequest(
        '/sglang.grpc.scheduler.SglangScheduler/Generate',
        (message: Uint8Array) => Buffer.from(message),
        (bytes) => bytes,
        toBinary(GenerateRequestSchema, requestOf([333, id], { maxNewTokens: 5, n: 2 }, { requestId })),
        metadata,
      );
    await collect(call('a-1', 334));
    await collect(call('b-2', 100_000));
    await collect(bench.client.stream(SglangScheduler.method.generate, requestOf([333], { maxNewTokens: 1 })));
    const over = lines.filter(({ msg }) => String(msg).startsWith('request'));
    expect(over).toMatchObject([
      {
        ...{
          msg: 'request over',
          request: 'a-1',
          trace_id: TRACE,
          parent_span_id: SPAN,
          prompt_tokens: 2,
          tokens: [5, 5],
        },
        ...{ outcome: 'complete', finish: ['length', 'length'], moved: false, ms: expect.any(Number) },
      },
      { msg: 'request refused', request: 'b-2', trace_id: TRACE, outcome: 'InvalidArgument' },
      { msg: 'request over', request: '', tokens: [1] },
    ]);
    expect(over[2]).not.toHaveProperty('trace_id');
    // The node is told of the relay's own span, and by the job's number its log and the relay's are one.
    const [traced, untraced] = node.jobs;
    const [{ span_id: span, job }] = over as [Record<string, unknown>];
    expect(traced).toMatchObject({ traceparent: `00-${TRACE}-${span}-01`, jobId: BigInt(String(job)) });
    expect(span).not.toBe(SPAN);
    expect(untraced?.traceparent).toBe('');
    expect(JSON.stringify(over)).not.toMatch(/\b33[34]\b/);
  } finally {
    await bench.end();
  }
});

test.each([
  [`00-${TRACE}-${SPAN}-01`, true],
  [`01-${TRACE}-${SPAN}-00-more`, true],
  [`ff-${TRACE}-${SPAN}-01`, false],
  [`00-${'0'.repeat(32)}-${SPAN}-01`, false],
  [`00-${TRACE}-${'0'.repeat(16)}-01`, false],
  [`00-${TRACE}-${SPAN}-01x`, false],
  [`00-${TRACE.toUpperCase()}-${SPAN}-01`, false],
  ['', false],
])('traceparent %j: %s', (traceparent, taken) => {
  const trace = readTrace(new Headers({ traceparent }));
  const span = { trace_id: TRACE, span_id: expect.stringMatching(/^[\da-f]{16}$/), parent_span_id: SPAN };
  expect(requestIds('a', trace)).toEqual({ request: 'a', ...(taken ? span : {}) });
  if (taken) expect(trace?.spanId).not.toBe(SPAN);
});
