import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { type Logger, pino } from 'pino';
import { expect, test, vi } from 'vitest';
import { Finished_Reason, type Generate, type NodeEventSchema } from '../../contract/gen/node_relay_pb.ts';
import { AbortRequestSchema, SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import { openModel } from '../model/open-model.ts';
import { benchPerTest, PROMPT } from '../testing/bench-per-test.ts';
import { collect } from '../testing/grpc-client.ts';
import { MODEL_DIR, type RelayBench, requestOf } from '../testing/relay-bench.ts';
import type { ScriptedNode } from '../testing/scripted-node.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

type Event = MessageInitShape<typeof NodeEventSchema>;

const bench = benchPerTest();
const lines: Record<string, unknown>[] = [];

/** A relay that audits every sample, and whose nodes say what the test has them say. */
async function start(): Promise<RelayBench> {
  lines.length = 0;
  const logger: Logger = pino({ level: 'warn' }, { write: (line: string) => lines.push(JSON.parse(line)) });
  return bench({ logger, auditShare: 1, model: { ...(await openModel(MODEL_DIR)), bosTokenId: undefined } });
}

const tokens = (jobId: bigint, offset: number, tokenIds: number[], index = 0): Event => ({
  ...{ jobId, index },
  event: { case: 'tokens', value: { offset, tokenIds } },
});
const finished = (jobId: bigint, completionTokens: number, index = 0): Event => ({
  ...{ jobId, index },
  event: { case: 'finished', value: { reason: Finished_Reason.LENGTH, completionTokens } },
});
const failed = (jobId: bigint): Event => ({
  jobId,
  event: { case: 'failed', value: { code: Code.Unavailable, message: 'the device is lost' } },
});

/** A request of `tokenCount` tokens that begins at a node, by its id and its prompt's last one. */
async function ask(on: RelayBench, node: ScriptedNode, requestId: string, last: number, rest = {}, n = 1) {
  const request = requestOf([...PROMPT, last], { maxNewTokens: 3, n }, { requestId, ...rest });
  const stream = on.client.stream(SglangScheduler.method.generate, request);
  const whole = collect(stream);
  await node.until(() => jobOf(node, last) !== undefined);
  return { stream, whole, jobId: jobOf(node, last)!.jobId };
}

/** What a node was given, by the last id of its prompt; audits have outputs behind theirs. */
const jobOf = (node: ScriptedNode, last: number): Generate | undefined =>
  node.jobs.find(({ inputIds }) => inputIds.length === PROMPT.length + 1 && inputIds.at(-1) === last);
const auditOf = (node: ScriptedNode, last: number): Generate | undefined =>
  node.jobs.find(({ inputIds }) => inputIds.length > PROMPT.length + 1 && inputIds[PROMPT.length] === last);

/** Tells of an audited output that others were best by far, at each step. */
async function contradict(node: ScriptedNode, { jobId, inputIds, logprobStart = 0 }: Generate): Promise<void> {
  const told = inputIds.slice(logprobStart);
  const best = (id: number) => ({
    tokenIds: Array.from({ length: 20 }, (_, at) => (id + 1 + at) % 512),
    logprobs: Array.from({ length: 20 }, (_, at) => (at === 0 ? -0.001 : -20 - at)),
  });
  await node.tell(
    {
      ...{ jobId, index: 0 },
      event: {
        case: 'inputLogprobs',
        value: {
          position: logprobStart,
          logprobs: told.map(() => ({ value: -30 })),
          topLogprobs: told.map(best),
        },
      },
    },
    finished(jobId, 0),
  );
}

async function flaggedAt(on: RelayBench): Promise<number> {
  const metrics = await (await fetch(`${on.webUrl}/metrics`)).text();
  return Number(/^shoal:flagged_samples_total(?:\{.*\})? (\d+)$/m.exec(metrics)?.[1]);
}

/** Has two nodes contradict an output, and gives what is flagged then, by request and index. */
async function verdict(on: RelayBench, others: readonly ScriptedNode[], last: number): Promise<string[]> {
  const asked = new Set<ScriptedNode>();
  for (let at = 0; at < 2; at++) {
    await vi.waitFor(() => expect(others.some((one) => !asked.has(one) && auditOf(one, last))).toBe(true), 10_000);
    const auditor = others.find((one) => !asked.has(one) && auditOf(one, last))!;
    asked.add(auditor);
    await contradict(auditor, auditOf(auditor, last)!);
  }
  const isFlags = ({ msg }: Record<string, unknown>) => msg === 'samples of a node that lied';
  await vi.waitFor(() => expect(lines.some(isFlags)).toBe(true), 10_000);
  const named = lines.filter(isFlags).flatMap(({ samples }) => samples as { request: string; index: number }[]);
  expect(await flaggedAt(on)).toBe(named.length);
  return named.map(({ request, index }) => `${request}/${index}`).sort();
}

test('all that a liar told tokens of is flagged: what ended, runs, moved or was broken off', async () => {
  const on = await start();
  const liar = await on.node({ manual: true, nodeId: 'lying-node' });
  const runs = await ask(on, liar, 'runs', 10);
  const untold = await ask(on, liar, 'untold', 11);
  const moves = await ask(on, liar, 'moves', 12);
  const ends = await ask(on, liar, 'ends-elsewhere', 13);
  const left = await ask(on, liar, 'left', 14);
  const unread = await ask(on, liar, 'left-unread', 15, { stream: false });
  const aborted = await ask(on, liar, 'aborted', 16);
  const two = await ask(on, liar, 'two', 17, {}, 2);
  const spared = await ask(on, liar, 'spared', 18);
  const lied = await ask(on, liar, 'lied', 20);
  for (const { jobId } of [runs, moves, ends, left, unread, aborted]) await liar.tell(tokens(jobId, 0, [100]));
  // Of two samples the second alone.
  await liar.tell(tokens(two.jobId, 0, [100, 101], 1));

  left.stream.cancel();
  unread.stream.cancel();
  await liar.until(() => liar.commandsOf('abort').length === 2);
  await on.client.unary(SglangScheduler.method.abort, create(AbortRequestSchema, { requestId: 'aborted' }));
  expect((await aborted.whole).error).toBeUndefined();

  const others = [await on.node({ manual: true }), await on.node({ manual: true })];
  await liar.tell(failed(moves.jobId), failed(ends.jobId), failed(spared.jobId));
  const at = async (last: number) => {
    await vi.waitFor(() => expect(others.some((one) => jobOf(one, last))).toBe(true), 10_000);
    return others.find((one) => jobOf(one, last))!;
  };
  const elsewhere = await at(13);
  await elsewhere.tell(tokens(ends.jobId, 1, [101, 102]), finished(ends.jobId, 3));
  expect((await ends.whole).error).toBeUndefined();
  const honest = await at(18);
  await honest.tell(tokens(spared.jobId, 0, [100, 101, 102]), finished(spared.jobId, 3));
  expect((await spared.whole).error).toBeUndefined();
  await liar.tell(tokens(lied.jobId, 0, [100, 101, 102]), finished(lied.jobId, 3));
  expect((await lied.whole).error).toBeUndefined();

  expect(await verdict(on, others, 20)).toEqual([
    ...['aborted/0', 'ends-elsewhere/0', 'left/0', 'lied/0', 'moves/0', 'runs/0', 'two/1'],
  ]);

  // What was under way goes on, and is flagged no second time at its end.
  for (const [last, { jobId, whole }] of [
    [10, runs],
    [11, untold],
    [12, moves],
  ] as const) {
    const from = last === 11 ? 0 : 1;
    const host = await at(last);
    await host.tell(tokens(jobId, from, [100, 101, 102].slice(from)), finished(jobId, 3));
    expect((await whole).error).toBeUndefined();
  }
  expect(await flaggedAt(on)).toBe(7);
});

test('a liar that left before the verdict has what it told flagged all the same', async () => {
  const on = await start();
  const liar = await on.node({ manual: true, nodeId: 'lying-node' });
  const runs = await ask(on, liar, 'runs', 10);
  const lied = await ask(on, liar, 'lied', 20);
  const others = [await on.node({ manual: true }), await on.node({ manual: true })];
  await liar.tell(tokens(runs.jobId, 0, [100]), tokens(lied.jobId, 0, [100, 101, 102]), finished(lied.jobId, 3));
  expect((await lied.whole).error).toBeUndefined();
  await liar.detach();
  expect(await verdict(on, others, 20)).toEqual(['lied/0', 'runs/0']);
});

test('of a job that moved, the sample that one node made is audited, and the one of two is not', async () => {
  const on = await start();
  const first = await on.node({ manual: true });
  const job = await ask(on, first, 'two', 10, {}, 2);
  await first.tell(tokens(job.jobId, 0, [100, 101, 102]), finished(job.jobId, 3), tokens(job.jobId, 0, [200], 1));
  const second = await on.node({ manual: true });
  await first.tell(failed(job.jobId));
  await second.until(() => jobOf(second, 10) !== undefined);
  await second.tell(tokens(job.jobId, 1, [201, 202], 1), finished(job.jobId, 3, 1));
  expect((await job.whole).error).toBeUndefined();
  await second.until(() => auditOf(second, 10) !== undefined);
  expect(second.jobs.slice(1).map(({ inputIds }) => inputIds.slice(PROMPT.length + 1))).toEqual([[100, 101, 102]]);
  expect(first.jobs).toHaveLength(1);
});
