import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { EmbedRequestSchema, SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import { writeEncoderFolder } from '../../testing/encoder-folder.node.ts';
import { openModel } from '../model/open-model.ts';
import type { ServedModel } from '../served-model.ts';
import { benchPerTest } from '../testing/bench-per-test.ts';
import type { RelayBench } from '../testing/relay-bench.ts';
import { vectorOf } from '../testing/scripted-vectors.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const bench = benchPerTest();
const IDS = [2, 9, 100, 3];
const NODE = { layers: 3, contextLength: 48, vectorSize: 48 };

let home: string;
let model: ServedModel;
beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'shoal-vector-audits-'));
  model = await openModel(writeEncoderFolder(join(home, 'embedder'), { name: 'bert', pools: true }), {
    cache: join(home, 'cache'),
  });
});
afterAll(() => rmSync(home, { recursive: true }));

const start = () => bench({ model, auditShare: 1 });
const embed = (on: RelayBench, dataParallelRank: number) =>
  on.client.unary(
    SglangScheduler.method.embed,
    create(EmbedRequestSchema, { tokenized: { inputIds: IDS }, dataParallelRank }),
  );

/** Waits until a count of /metrics is that. */
async function until(on: RelayBench, name: string, label: string, count: number): Promise<void> {
  await vi.waitFor(
    async () => {
      const text = await (await fetch(`${on.webUrl}/metrics`)).text();
      const line = text
        .split('\n')
        .find((one) => one.startsWith(name) && /[ {]/.test(one[name.length]!) && one.includes(label));
      expect(Number(line?.split(' ').at(-1))).toBe(count);
    },
    { timeout: 15_000 },
  );
}

/** Normalised, and of another input. */
const lie: typeof vectorOf = (ids, types, size) => vectorOf([...ids].reverse(), types, size);

test('an audit is the same input at another node, and passes where that makes the same of it', async () => {
  const on = await start();
  const maker = await on.node(NODE);
  const other = await on.node(NODE);
  await embed(on, 0);
  await until(on, 'shoal:audited_samples_total', '"passes"', 1);
  expect(other.embeds).toMatchObject([{ inputs: [{ index: 0, inputIds: IDS }] }]);
  expect(maker.embeds).toHaveLength(1);
});

test('a node that tells other vectors is put out, once a third node has settled it', async () => {
  const on = await start();
  const liar = await on.node({ ...NODE, vectorOf: lie });
  for (let at = 0; at < 2; at++) await on.node(NODE);
  await embed(on, 0);
  await until(on, 'shoal:settled_audits_total', '"maker"', 1);
  await until(on, 'shoal:nodes', '', 2);
  await vi.waitFor(() => expect(liar.streamError?.rawMessage).toBeDefined(), { timeout: 15_000 });
});

test('an auditor that tells other vectors is put out, and the maker stays', async () => {
  const on = await start();
  const maker = await on.node(NODE);
  const liar = await on.node({ ...NODE, vectorOf: lie, maxRunning: 64 });
  await embed(on, 0);
  await until(on, 'shoal:audited_samples_total', '"fails"', 1);
  await on.node(NODE);
  await until(on, 'shoal:settled_audits_total', '"auditor"', 1);
  await vi.waitFor(() => expect(liar.streamError?.rawMessage).toBeDefined(), { timeout: 15_000 });
  expect(maker.streamError).toBeUndefined();
});
