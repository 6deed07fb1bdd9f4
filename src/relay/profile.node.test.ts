import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import { expect, test, vi } from 'vitest';
import type { ProfiledStageSchema } from '../contract/gen/node_relay_pb.ts';
import { SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { StartProfileRequestSchema, StopProfileRequestSchema } from '../contract/gen/smg_common_pb.ts';
import { benchPerTest } from './testing/bench-per-test.ts';
import type { RelayBench } from './testing/relay-bench.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const { startProfile, stopProfile } = SglangScheduler.method;
const start = benchPerTest();
const begin = (on: RelayBench, request: MessageInitShape<typeof StartProfileRequestSchema> = {}) =>
  on.client.unary(startProfile, create(StartProfileRequestSchema, request));
const stop = (on: RelayBench) => on.client.unary(stopProfile, create(StopProfileRequestSchema));

const STAGE = {
  stage: 'decode',
  steps: 2,
  clock: 'timestamps in steps of 65.5 µs',
  kernels: [
    { kernel: 'linear emit, 64 × 172', calls: 5, ms: 0.3, gbytesPerSecond: 1.5, gflops: 2.25, repeats: 40 },
    { kernel: 'row-stats\n', calls: 1, ms: 0.5, repeats: 7 },
  ],
} satisfies MessageInitShape<typeof ProfiledStageSchema>;
const TOLD = [
  'Rank 0, decode, 2 steps, 2.00 ms in kernels, each alone and repeated (timestamps in steps of 65.5 µs):',
  '  linear emit, 64 × 172: 5 calls of 0.300 ms, 1.50 ms a step, 75.0 %, 1.50 GB/s, 2.3 GFLOP/s, 40 repeats',
  '  row-stats : 1 calls of 0.500 ms, 0.50 ms a step, 25.0 %, 7 repeats',
];

test('StartProfile has every node that serves time its steps, and StopProfile tells what they told', async () => {
  const on = await start();
  const node = await on.node({ profiled: { stages: [STAGE], problem: '' } });
  await on.node({ profiled: { stages: [], problem: 'it has no kernels' } });
  expect(await begin(on, { numSteps: 2, profileByStage: true, activities: ['GPU'], recordShapes: true })).toMatchObject(
    { success: true, message: expect.stringContaining('the next 2 steps of each stage at 2 nodes') },
  );
  await node.until(() => node.commandsOf('profile').length === 1);
  expect(node.commands.find(({ command }) => command.case === 'profile')).toMatchObject({
    required: true,
    command: { value: { steps: 2, byStage: true } },
  });
  const answer = await stop(on);
  expect(answer.success).toBe(true);
  expect(answer.message.split('\n')).toEqual([
    ...TOLD,
    'Rank 1: no step ran.',
    'Rank 1 tells less than was asked for: it has no kernels.',
  ]);
  expect(await stop(on)).toMatchObject({ success: false, message: 'No profile was started.' });
});

test('StopProfile ends what is being timed; a node that went is named', async () => {
  const on = await start();
  const node = await on.node();
  const lost = await on.node();
  await begin(on);
  await node.until(() => node.commandsOf('profile').length === 1);
  const [{ profileId, steps } = { profileId: 0n, steps: 0 }] = node.commandsOf('profile');
  expect(steps).toBe(100);
  const answer = stop(on);
  await node.until(() => node.commandsOf('profile').length === 2);
  expect(node.commandsOf('profile')[1]).toMatchObject({ profileId, steps: 0 });
  await lost.detach();
  await node.tell({ event: { case: 'profiled', value: { profileId, stages: [STAGE] } } });
  expect(await answer).toMatchObject({ success: false, message: [...TOLD, 'Rank 1 went.'].join('\n') });
});

test('without a node nothing is timed', async () => {
  const on = await start();
  expect(await begin(on)).toMatchObject({ success: false, message: 'No node is serving.' });
  expect(await stop(on)).toMatchObject({ success: false, message: 'No profile was started.' });
});

test.each([
  [{ numSteps: 0 }, status.INVALID_ARGUMENT, 'num_steps'],
  [{ numSteps: 1_001 }, status.INVALID_ARGUMENT, 'num_steps'],
  [{ outputDir: '/tmp' }, status.UNIMPLEMENTED, 'output_dir'],
  [{ startStep: 5 }, status.UNIMPLEMENTED, 'start_step'],
  [{ activities: ['GPU', 'CPU'] }, status.UNIMPLEMENTED, 'activities'],
  [{ withStack: true }, status.UNIMPLEMENTED, 'with_stack'],
] as const)('a field of StartProfile that is not served is refused by name: %o', async (request, code, field) => {
  const on = await start();
  await on.node();
  const { activities, ...rest } = { activities: [], ...request };
  await expect(begin(on, { ...rest, activities: [...activities] })).rejects.toMatchObject({
    code,
    details: expect.stringMatching(new RegExp(`^${field} `)),
  });
});

test.each([
  ['never asked for', { profileId: 99n }],
  ['of three stages', { stages: ['all', 'prefill', 'decode'].map((stage) => ({ ...STAGE, stage })) }],
  ['of one stage twice', { stages: [STAGE, STAGE] }],
  ['of a stage that is none', { stages: [{ ...STAGE, stage: 'lunch' }] }],
  ['of no steps', { stages: [{ ...STAGE, steps: 0 }] }],
  ['of negative time', { stages: [{ ...STAGE, kernels: [{ ...STAGE.kernels[1]!, ms: -1 }] }] }],
  [
    'of endless calls',
    { stages: [{ ...STAGE, kernels: [{ ...STAGE.kernels[1]!, calls: Number.POSITIVE_INFINITY }] }] },
  ],
  ['of 257 kernels', { stages: [{ ...STAGE, kernels: Array.from({ length: 257 }, () => STAGE.kernels[1]!) }] }],
])('a node that tells a profile %s is put out', async (_, told) => {
  const on = await start();
  const node = await on.node();
  await begin(on);
  await node.until(() => node.commandsOf('profile').length === 1);
  const profileId = node.commandsOf('profile')[0]!.profileId;
  await node.tell({ event: { case: 'profiled', value: { profileId, ...told } } });
  await node.until(() => node.reportError !== undefined);
  expect(node.reportError?.rawMessage).toContain("told what can't be");
});
