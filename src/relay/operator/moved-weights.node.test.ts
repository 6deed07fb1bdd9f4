import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import { openModel } from '../model/open-model.ts';
import { benchPerTest, idsOf, PROMPT } from '../testing/bench-per-test.ts';
import { collect } from '../testing/grpc-client.ts';
import { updateWeights as update } from '../testing/operator-calls.ts';
import { writeOtherWeights } from '../testing/other-weights.ts';
import { requestOf } from '../testing/relay-bench.ts';
import { outputOf } from '../testing/scripted-engine.ts';

const start = benchPerTest();
const home = mkdtempSync(join(tmpdir(), 'shoal-moved-'));
afterAll(() => rmSync(home, { recursive: true }));

test('weights that are served already are from then on those of the path named, and no session ends', async () => {
  const url = 'https://cdn.example/stories260K/';
  const first = writeOtherWeights(join(home, 'first'), 4);
  const model = await openModel(first, { name: 'stories260K' });
  const on = await start({ model, modelUrls: [url] });
  const node = await on.node();
  const moved = join(home, 'moved');
  cpSync(first, moved, { recursive: true });
  expect((await update(on, moved)).message).toBe('These weights are served already.');
  rmSync(first, { recursive: true });
  expect(on.relay.model).toMatchObject({ digest: model.digest, folder: moved });
  const file = await fetch(`${on.webUrl}/model/files/model.safetensors`);
  expect(Buffer.from(await file.arrayBuffer()).equals(readFileSync(join(moved, 'model.safetensors')))).toBe(true);
  expect((await fetch(`${on.webUrl}/tokenizer/manifest.json`)).status).toBe(200);
  expect(await (await fetch(`${on.webUrl}/model/about.json`)).text()).toContain(url);
  const stream = on.client.stream(SglangScheduler.method.generate, requestOf(PROMPT, { maxNewTokens: 8 }));
  expect(idsOf((await collect(stream)).messages)).toEqual(outputOf(PROMPT, 8));
  expect([node.streamError, node.jobs.length]).toEqual([undefined, 1]);
});

test('what a node had taken on, and made no token of, is made of the new weights; no node was lost', async () => {
  const on = await start({ updateDrainMs: 100 });
  const node = await on.node({ manual: true });
  const whole = collect(on.client.stream(SglangScheduler.method.generate, requestOf(PROMPT, { maxNewTokens: 8 })));
  await node.until(() => node.jobs.length === 1);
  // It has the command, and says so.
  await node.report(true);
  const updated = update(on, writeOtherWeights(join(home, 'other'), 5));
  await node.until(() => node.streamError !== undefined);
  await on.node();
  expect(idsOf((await whole).messages)).toEqual(outputOf(PROMPT, 8));
  await updated;
  expect(await (await fetch(`${on.webUrl}/metrics`)).text()).toMatch(/^shoal:failovers_total\S* 0$/m);
});
