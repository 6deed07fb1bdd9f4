import { afterAll, expect, test } from 'vitest';
import tokenizerJson from '../../models/stories260K/tokenizer.json?raw';
import { readTokenBytes } from '../checkpoint/token-bytes.ts';
import { Random } from '../gpu/testing/random.ts';
import { loadDecoder } from '../model/load-decoder.ts';
import { storiesCheckpoint, storiesConfig } from '../model/testing/stories.ts';
import { testDevice } from '../testing/device.ts';
import { testGrammarWorkers } from '../testing/grammar-workers.ts';
import { ENGINE_DEFAULTS } from './engine-defaults.ts';
import { GrammarPool } from './grammar/grammar-pool.ts';
import { grammarVocabulary } from './grammar/grammar-vocabulary.ts';
import { type Drafter, NgramDrafts } from './ngram-drafts.ts';
import type { EngineRequest } from './request.ts';
import { GivenDrafts } from './testing/given-drafts.ts';
import { outcome } from './testing/outcome.ts';
import { request, Served, sampling } from './testing/serve.ts';

const LONG = import.meta.env.SHOAL_LONG === '1';
const STOP_IDS = [1, 2];
/** "Once upon a time". */
const PROMPT = [1, 403, 407, 261, 378];
const MAX_NEW_TOKENS = LONG ? 150 : 24;
const RUNNING = 8;

const tokens = readTokenBytes(tokenizerJson, 'tokenizer.json');
const grammars = new GrammarPool(grammarVocabulary(tokens, 512, STOP_IDS), await testGrammarWorkers());
afterAll(() => grammars.destroy());

const drawn = { temperature: 0.9, topP: 0.95 };
const penalties = { frequencyPenalty: 0.6, presencePenalty: 0.4, repetitionPenalty: 1.2 };
const KINDS: readonly Partial<EngineRequest>[] = [
  {},
  { outputLogprobs: true, topLogprobs: 3, hiddenStates: true },
  { sampling: sampling(drawn) },
  { sampling: sampling({ ...drawn, ...penalties }), outputLogprobs: true },
  { sampling: sampling({ ...penalties, minNewTokens: 12, maskedStopIds: STOP_IDS }), stopTokenIds: STOP_IDS },
  {
    sampling: sampling({
      biases: [
        { id: 403, bias: 4 },
        { id: 5, bias: -5 },
      ],
    }),
    logprobIds: [403, 5],
    outputLogprobs: true,
  },
  { constraint: { kind: 'regex', text: '( a| cat| the| dog)+\\.' }, sampling: sampling({ temperature: 1 }) },
  {
    constraint: { kind: 'json_schema', text: '{"type":"array","items":{"enum":["red","blue"]},"minItems":4}' },
    sampling: sampling({ ...penalties, temperature: 0.7 }),
    stopTokenIds: STOP_IDS,
    outputLogprobs: true,
  },
  { stopStrings: [' was', 'park'] },
];

function requests(): EngineRequest[] {
  return KINDS.map((kind, i) => {
    const asked = request(BigInt(i + 1), PROMPT, { maxNewTokens: MAX_NEW_TOKENS, ...kind });
    return { ...asked, sampling: { ...asked.sampling, seed: BigInt(i + 100) } };
  });
}

/** Drafts that are right for some ids, and then anything. */
function mixed(known: readonly (readonly number[])[], random: Random): Drafter {
  return {
    draft: (ids, most) => {
      const whole = known.find((one) => one.length > ids.length && ids.every((id, i) => one[i] === id));
      const right = random.integer(0, most);
      const next = whole?.slice(ids.length, ids.length + right) ?? [];
      while (next.length < most) next.push(random.integer(3, 511));
      return { ids: next, match: 2 };
    },
  };
}

test('what is drafted changes nothing: ids, logprobs and hidden states are those without, bit for bit', async () => {
  const runner = await loadDecoder(await testDevice(), await storiesCheckpoint(), storiesConfig(), {
    kvBlocks: RUNNING * 16,
    maxRows: 128,
    maxSequences: RUNNING,
    maxTopLogprobs: 3,
  });
  const serve = async (speculation?: GivenDrafts) => {
    const limits = { ...ENGINE_DEFAULTS, maxRunning: RUNNING, prefixCache: false };
    const served = new Served(runner, tokens, limits, { grammars, ...(speculation ? { speculation } : {}) });
    const asked = requests();
    for (const one of asked) served.submit(one);
    await served.until(() => served.allEnded());
    return asked.map(({ jobId }) => outcome(served.result(jobId)));
  };
  const without = await serve();
  expect(without.every(({ ids }) => ids.length > 2)).toBe(true);
  const known = without.map(({ ids }) => [...PROMPT, ...ids]);
  const random = new Random(5);
  const drafters = { ngrams: () => new NgramDrafts(), mixed: () => mixed(known, random) };
  for (const [name, newDrafter] of Object.entries(drafters)) {
    const given = new GivenDrafts(newDrafter, () => random.integer(1, 6));
    const drafted = await serve(given);
    for (const [i, one] of drafted.entries()) expect([name, i, one]).toEqual([name, i, without[i]]);
    if (name === 'mixed') expect(given.counts.accepted).toBeGreaterThan(MAX_NEW_TOKENS);
    expect(given.counts.accepted).toBeLessThan(given.counts.drafted);
  }
  runner.destroy();
}, 600_000);
