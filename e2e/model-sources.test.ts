// What --model takes, up to the ids that a page makes of it.
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { bundledModel, packageRoot } from '../src/cli/paths.ts';
import { LocalHub } from '../src/relay/testing/local-hub.ts';
import gguf from '../src/testing/golden/gguf/stories260K.json' with { type: 'json' };
import { TestBrowser } from './harness/browser.ts';
import { OUTPUT_IDS, PROMPT_IDS } from './harness/golden.ts';
import { startRelay } from './harness/relay.ts';
import { collect, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';

const JSON_FILES = ['config.json', 'generation_config.json', 'tokenizer.json', 'tokenizer_config.json'];
const Q8_0 = join(packageRoot, 'src/testing/golden/gguf/stories260K-q8_0.gguf');

let scratch: string;
let browser: TestBrowser;
beforeAll(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-sources-'));
  process.env.SHOAL_CACHE = join(scratch, 'cache');
  browser = await TestBrowser.launch();
});
afterAll(async () => {
  await browser.close();
  rmSync(scratch, { recursive: true });
});

/** Serves a model in a page and completes a prompt; the relay's words too. */
async function complete(args: readonly string[], ids: number[], count: number) {
  const relay = await startRelay(args);
  try {
    const page = await browser.serve(relay.webUrl);
    const client = schedulerClient(relay.grpc);
    const info = await client.getModelInfo({});
    const answer = await collect(client, greedyRequest(ids, { temperature: 0, maxNewTokens: count }));
    await page.close();
    return { ids: idsOf(answer), info, said: relay.command.said() };
  } finally {
    await relay.command.stop();
  }
}

/** The bundled model with its tensors in two files. */
function shardedModel(): string {
  const folder = join(scratch, 'sharded');
  mkdirSync(folder);
  for (const name of JSON_FILES) copyFileSync(join(bundledModel, name), join(folder, name));
  const file = readFileSync(join(bundledModel, 'model.safetensors'));
  const dataStart = 8 + Number(file.readBigUInt64LE(0));
  const { __metadata__: _, ...tensors } = JSON.parse(file.toString('utf8', 8, dataStart)) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  >;
  const weightMap: Record<string, string> = {};
  for (const half of [0, 1]) {
    const own = Object.entries(tensors).filter((_entry, i) => i % 2 === half);
    const name = `model-0000${half + 1}-of-00002.safetensors`;
    let at = 0;
    const header = own.map(([tensor, { dtype, shape, data_offsets: offsets }]) => {
      weightMap[tensor] = name;
      const begin = at;
      at += offsets[1] - offsets[0];
      return [tensor, { dtype, shape, data_offsets: [begin, at] }];
    });
    const text = Buffer.from(JSON.stringify(Object.fromEntries(header)));
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(text.length));
    const data = own.map(
      ([
        ,
        {
          data_offsets: [begin, end],
        },
      ]) => file.subarray(dataStart + begin, dataStart + end),
    );
    writeFileSync(join(folder, name), Buffer.concat([length, text, ...data]));
  }
  writeFileSync(join(folder, 'model.safetensors.index.json'), JSON.stringify({ weight_map: weightMap }));
  return folder;
}

test('shards give the ids of the one file', async () => {
  const { ids } = await complete(['--model', shardedModel()], [...PROMPT_IDS], 60);
  expect(ids).toEqual(OUTPUT_IDS.slice(0, 60));
});

test('a .gguf file gives its golden ids, and its tokenizer to gateways', async () => {
  const { ids: prompt, greedy } = gguf.files['stories260K-q8_0'].cases[0]!;
  const { ids, info } = await complete(['--model', Q8_0], prompt, greedy.length);
  expect(ids).toEqual(greedy);
  expect(info).toMatchObject({ servedModelName: 'stories260K-q8_0', eosTokenIds: [2], vocabSize: 512 });
  expect(JSON.parse(readFileSync(join(info.tokenizerPath, 'tokenizer.json'), 'utf8'))).toHaveProperty('model.vocab');
});

test('weights quantised on load still begin the story', async () => {
  const { ids } = await complete(['--quant', 'q8'], [...PROMPT_IDS], 12);
  expect(ids).toEqual(OUTPUT_IDS.slice(0, 12));
});

test('a model of the hub’s is fetched once and served', async () => {
  const files = [...JSON_FILES, 'model.safetensors'].map((name) => [name, readFileSync(join(bundledModel, name))]);
  const hub = await LocalHub.start('someone/stories', Object.fromEntries(files));
  process.env.HF_ENDPOINT = hub.url;
  try {
    const { ids, info, said } = await complete(['--model', 'hf:someone/stories'], [...PROMPT_IDS], 20);
    expect(ids).toEqual(OUTPUT_IDS.slice(0, 20));
    expect(info.servedModelName).toBe('someone/stories');
    expect(said).toMatch(/Fetching hf:someone\/stories@[0-9a-f]{12}: 1\.1 MB/);
    const before = hub.downloads.length;
    const again = await startRelay(['--model', `hf:someone/stories@${hub.commit}`]);
    await again.command.stop();
    expect(hub.downloads).toHaveLength(before);
  } finally {
    delete process.env.HF_ENDPOINT;
    await hub.close();
  }
});
