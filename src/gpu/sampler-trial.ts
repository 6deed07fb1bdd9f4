import { type KernelTrial, TrialFailure } from './kernel-trial.ts';
import { GREEDY } from './norm-trials.ts';
import type { LogitsEntry } from './pack-step.ts';
import { argmaxReference, sampleReference } from './sampler.reference.ts';
import { RESULT_WORDS, Sampler } from './sampler.ts';

/** Larger vocabularies are tried by one of this size, whose kernels are the same. */
const MOST_IDS = 8192;

/** How draws are tried: of the whole row, and of what filters leave. */
const DRAWS = [
  { temperature: 1 },
  { temperature: 0.8, topP: 0.9 },
  { temperature: 1.3, topK: 100, topP: 0.95, minP: 0.001 },
] as const;

/** A greedy row and draws, of a vocabulary of this size. Rejects with TrialFailure where an id is wrong. */
export async function trySampler(trial: KernelTrial, vocabulary: number): Promise<void> {
  const size = vocabulary <= MOST_IDS ? vocabulary : MOST_IDS + (vocabulary % 4);
  const logits = Float32Array.from({ length: size }, (_, id) => ((id * 7919) % 1009) / 200 - 6);
  // Some stand out, as they do in a model's: far apart, the best neither first nor last.
  for (let i = 0; i < 9 && i < size; i++) logits[(i * 2711 + 17) % size] = 3 + ((i * 5) % 9) / 3;
  const entries: LogitsEntry[] = [
    { ...GREEDY, row: 0, slot: 0 },
    ...DRAWS.map((draw) => {
      const entry: LogitsEntry = { ...GREEDY, row: 0, slot: 0, sampled: true, outputPosition: 3, ...draw };
      return { ...entry, seed: certainSeed(logits, entry) };
    }),
  ];
  const tile = new Float32Array(entries.length * size);
  for (let i = 0; i < entries.length; i++) tile.set(logits, i * size);
  const { buffer: step } = await trial.step(
    [{ slot: 0, tokens: new Uint32Array(1), startPosition: 0, blockTable: [0] }],
    entries,
  );
  const [logitsBuffer, lastIds, slotIds] = await Promise.all([trial.buffer(tile), trial.zeros(4), trial.zeros(4)]);
  const sampler = await Sampler.create(
    trial.gpu,
    {
      ...{ vocabulary: size, tileRows: entries.length, maxLogitsRows: entries.length },
      ...{ maxTop: 1, maxIds: 1, maxLogprobIds: 1 },
    },
    { step, logits: logitsBuffer, lastIds, slotIds },
  );
  // A greedy row by itself has a kernel of its own.
  for (const some of [entries.slice(0, 1), entries]) {
    const [results] = await trial.run((pass) => sampler.encode(pass, 0, some), [sampler.results]);
    const words = new Uint32Array(results!.buffer);
    some.forEach((entry, i) => {
      const id = words[i * RESULT_WORDS];
      const expected = entry.sampled ? sampleReference(logits, entry, entry.outputPosition) : argmaxReference(logits);
      const what = entry.sampled ? `a draw at temperature ${entry.temperature}` : 'the best';
      if (words[i * RESULT_WORDS + 1] !== 0) throw new TrialFailure(`${what} of finite logits is told as non-finite`);
      if (id !== expected) throw new TrialFailure(`${what} is id ${id}, should be ${expected}`);
    });
  }
}

/** A seed whose draw is not so near to another id that rounding decides. */
function certainSeed(logits: Float32Array, entry: LogitsEntry): bigint {
  for (let seed = 1n; ; seed++) {
    const drawAt = (factor: number) =>
      sampleReference(logits, { ...entry, seed, temperature: entry.temperature * factor }, entry.outputPosition);
    const id = drawAt(1);
    // Far more than rounding moves a sum of weights.
    if (drawAt(0.998) === id && drawAt(1.002) === id) return seed;
  }
}
