import { afterAll, expect, test } from 'vitest';
import tokenizerJson from '../../models/stories260K/tokenizer.json?raw';
import { readTokenBytes } from '../checkpoint/token-bytes.ts';
import { loadDecoder } from '../model/load-decoder.ts';
import { storiesCheckpoint, storiesConfig } from '../model/testing/stories.ts';
import { deviceProfile, testDevice } from '../testing/device.ts';
import { testGrammarWorkers } from '../testing/grammar-workers.ts';
import { ENGINE_DEFAULTS, MAX_ROWS } from './engine-defaults.ts';
import { GrammarPool } from './grammar/grammar-pool.ts';
import { grammarVocabulary } from './grammar/grammar-vocabulary.ts';
import { CONSTRAINED_CASES } from './grammar/testing/constrained-cases.ts';
import { judge } from './grammar/testing/judge.ts';
import { request, Served, sampling } from './testing/serve.ts';

const LONG = import.meta.env.SHOAL_LONG === '1';
const STOP_IDS = [1, 2];
/** "Once upon a time". */
const PROMPT = [1, 403, 407, 261, 378];
const RUNNING = 16;

const tokens = readTokenBytes(tokenizerJson, 'tokenizer.json');
const grammars = new GrammarPool(grammarVocabulary(tokens, 512, STOP_IDS), await testGrammarWorkers());
afterAll(() => grammars.destroy());

// What the device may do changes nothing here.
test.runIf(deviceProfile() === 'full')(
  'what a small model finishes is right, whatever it would rather say',
  { timeout: 1_800_000 },
  async () => {
    const runner = await loadDecoder(await testDevice(), await storiesCheckpoint(), storiesConfig(), {
      kvBlocks: RUNNING * 32,
      maxRows: MAX_ROWS,
      maxSequences: RUNNING,
    });
    const served = new Served(runner, tokens, { ...ENGINE_DEFAULTS, maxRunning: RUNNING }, { grammars });
    const cases = CONSTRAINED_CASES.filter((_, i) => LONG || i % 12 === 0);
    const samples = LONG ? 2 : 1;
    const asked = cases.flatMap((each) =>
      [0, 0.3, 0.7, 1, 1.5].flatMap((temperature) =>
        Array.from({ length: temperature === 0 ? 1 : samples }, () => ({ each, temperature })),
      ),
    );
    let finished = 0;
    // A queue's length at a time.
    for (let from = 0; from < asked.length; from += ENGINE_DEFAULTS.maxWaiting) {
      const wave = asked.slice(from, from + ENGINE_DEFAULTS.maxWaiting);
      for (const [i, { each, temperature }] of wave.entries()) {
        const jobId = BigInt(from + i);
        served.submit(
          request(jobId, PROMPT, {
            maxNewTokens: 300,
            sampling: sampling({ temperature, seed: jobId }),
            stopTokenIds: STOP_IDS,
            constraint: each.constraint,
          }),
        );
      }
      await served.until(() => served.allEnded());
      for (const [i, { each, temperature }] of wave.entries()) {
        const { ids, end } = served.result(BigInt(from + i));
        const what = `${each.constraint.kind}, ${each.name}, at ${temperature}`;
        if (end?.type !== 'finished') throw new Error(`${what}: ${end?.message}`);
        expect(end.reason, what).toMatch(/^(stop|length)$/);
        if (end.reason !== 'stop') continue;
        finished++;
        expect(STOP_IDS, what).toContain(ids.at(-1));
        expect(end.matched, what).toBe(ids.at(-1));
        const text = ids.slice(0, -1).flatMap((id) => [...tokens.bytes(id)]);
        expect(judge(each, Uint8Array.from(text)), what).toBeUndefined();
      }
    }
    console.info(`${finished} of ${asked.length} outputs finished, and all of them were right`);
    expect(finished).toBeGreaterThan(asked.length / 2);
    runner.destroy();
  },
);
