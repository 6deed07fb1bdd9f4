// Models of other families than the bundled one's: tiny ones as GGUF files, from relay to page and back.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bytesSource } from '../src/checkpoint/byte-source.ts';
import type { Checkpoint } from '../src/checkpoint/checkpoint.ts';
import { openSafetensors } from '../src/checkpoint/safetensors.ts';
import { type GgufConversion, writeGgufModel } from '../src/checkpoint/testing/write-gguf-model.ts';
import { packageRoot } from '../src/cli/paths.ts';
import { TestBrowser, waitUntilServing } from './harness/browser.ts';
import { startRelay } from './harness/relay.ts';
import { collect, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';

const skip = process.env.SHOAL_LONG !== '1' ? 'a test of the long tier: npm run test:long' : undefined;

const LOAD_BOUND_MS = 120_000;
const PROMPT = 20;

/** Whose golden ids a GGUF file can say all of. */
const MODELS: readonly (readonly [string, GgufConversion])[] = [
  ['gpt2', { architecture: 'gpt2' }],
  ['mistral', { architecture: 'llama', permuted: true, metadata: { 'attention.sliding_window': 16 } }],
  [
    'qwen3-moe',
    {
      ...{ architecture: 'qwen3moe', stacked: true },
      metadata: { expert_count: 8, expert_used_count: 2, expert_feed_forward_length: 40 },
    },
  ],
];

async function golden(name: string, file: string): Promise<Uint8Array> {
  return new Uint8Array(await readFile(join(packageRoot, 'src/testing/golden/tiny', name, file)));
}

const openGolden = async (name: string, file: string): Promise<Checkpoint> =>
  openSafetensors(bytesSource(file, await golden(name, file)));

describe.skipIf(skip !== undefined)(`other families${skip === undefined ? '' : ` (skipped: ${skip})`}`, () => {
  let folder: string;
  let browser: TestBrowser;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'shoal-families-'));
    process.env.SHOAL_CACHE = join(folder, 'cache');
    browser = await TestBrowser.launch();
  }, LOAD_BOUND_MS);

  afterAll(async () => {
    await browser?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  test.each(MODELS)(
    '%s gives the golden ids through relay and page',
    async (name, how) => {
      const raw = JSON.parse(new TextDecoder().decode(await golden(name, 'config.json'))) as Record<string, unknown>;
      const path = join(folder, `${name}.gguf`);
      writeFileSync(path, await writeGgufModel(await openGolden(name, 'model.safetensors'), raw, how));
      const values = await openGolden(name, 'golden.safetensors');
      const ids = async (tensor: string) => {
        const bytes = await values.read(values.tensors.get(tensor)!);
        const all = [...new Int32Array(bytes.slice().buffer)];
        return [all.slice(0, all.length / 2), all.slice(all.length / 2)] as const;
      };
      const relay = await startRelay(['--model', path]);
      try {
        const page = await browser.open(`${relay.webUrl}/#join`);
        await waitUntilServing(page, LOAD_BOUND_MS);
        const client = schedulerClient(relay.grpc);
        const [prompts, greedy] = [await ids('input_ids'), await ids('greedy')];
        const answers = await Promise.all(
          prompts.map((prompt, i) =>
            collect(
              client,
              greedyRequest(prompt.slice(0, PROMPT), {
                ...{ temperature: 0, maxNewTokens: greedy[i]!.length, ignoreEos: true },
              }),
            ),
          ),
        );
        expect(answers.map((answer) => idsOf(answer))).toEqual(greedy);
        await page.close();
      } finally {
        await relay.command.stop();
      }
    },
    2 * LOAD_BOUND_MS,
  );
});
