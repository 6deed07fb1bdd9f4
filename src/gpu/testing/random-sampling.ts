import { MASKED_LOGIT } from '../adjust-logits.reference.ts';
import type { LogitsEntry } from '../pack-step.ts';
import { GREEDY_ENTRY } from './kernel-bench.ts';
import type { Random } from './random.ts';

/** Logits of one of many kinds: as a model's, flat, tied, huge, masked, all masked but a few. */
export function randomLogits(random: Random, vocabulary: number): Float32Array<ArrayBuffer> {
  const logits = baseLogits(random, vocabulary);
  const some = (share: number, change: (logit: number) => number) => {
    for (let id = 0; id < vocabulary; id++) if (random.uniform() < share) logits[id] = change(logits[id]!);
  };
  switch (random.integer(0, 12)) {
    case 0:
      some(random.uniform(), () => MASKED_LOGIT);
      break;
    case 1: {
      const one = random.integer(0, vocabulary - 1);
      for (let id = 0; id < vocabulary; id++) if (id !== one) logits[id] = MASKED_LOGIT;
      break;
    }
    case 2:
      some(3 / vocabulary, (logit) => logit + 10 * random.uniform());
      break;
    case 3:
      some(0.01, () => -3.4e38);
      break;
    case 4:
      some(0.2, (logit) => (logit === 0 ? -0 : logit));
      break;
    case 5:
      some(1 - 10 / vocabulary, () => MASKED_LOGIT);
      break;
    case 6: {
      // All that is left is of one strand.
      const strand = random.integer(0, Math.min(63, (vocabulary - 1) >> 2));
      for (let id = 0; id < vocabulary; id++) if ((id >> 2) % 64 !== strand) logits[id] = MASKED_LOGIT;
      break;
    }
    case 7: {
      const huge = 6e38 * (random.uniform() - 0.5);
      const one = random.integer(0, vocabulary - 1);
      for (let id = 0; id < vocabulary; id++) logits[id] = id === one ? huge : MASKED_LOGIT;
      break;
    }
  }
  return logits;
}

function baseLogits(random: Random, vocabulary: number): Float32Array<ArrayBuffer> {
  const scale = 10 ** (3 * random.uniform() - 1.5);
  const shift = random.integer(0, 3) === 0 ? 100 * random.normal() : 0;
  const of = (make: (id: number) => number) => Float32Array.from({ length: vocabulary }, (_, id) => make(id));
  switch (random.integer(0, 8)) {
    case 0:
      return of(() => shift);
    case 1:
      return of(() => random.integer(0, 3) * scale + shift);
    case 2:
      return of(() => random.normal() * 1e30);
    case 3:
      return of((id) => shift - Math.log(id + 1) * scale);
    case 4:
      return of(() => shift + 1e-6 * random.normal());
    case 5:
      return of(() => Math.round(random.normal() * 4) / 4);
    default:
      return of(() => random.normal() * scale + shift);
  }
}

/** A row that is drawn, at parameters over all that may be asked for. */
export function randomEntry(random: Random, vocabulary: number): LogitsEntry {
  const often = (share: number) => random.uniform() < share;
  const topKs = [1, 2, random.integer(1, 50), random.integer(1, vocabulary), vocabulary, 64, 65, vocabulary + 1];
  const minPs = [1, 0.5, 10 ** (-6 * random.uniform())];
  const topPs = [0, 1e-30, 1 - 2 ** -24];
  const temperatures = [1e-6, 1e30];
  const tops = [20, 21, 64, 65];
  return {
    ...GREEDY_ENTRY,
    sampled: often(0.9),
    temperature: Math.fround(
      often(0.6)
        ? 0.2 + 2 * random.uniform()
        : often(0.8)
          ? 10 ** (12 * random.uniform() - 6)
          : temperatures[random.integer(0, 1)]!,
    ),
    topK: often(0.4) ? topKs[random.integer(0, 7)]! : 0,
    topP: Math.fround(
      often(0.5)
        ? often(0.7)
          ? 0.01 + 0.99 * random.uniform()
          : often(0.7)
            ? 1 - 10 ** (-6 * random.uniform())
            : topPs[random.integer(0, 2)]!
        : 1,
    ),
    minP: Math.fround(often(0.3) ? minPs[random.integer(0, 2)]! : 0),
    seed: (BigInt(random.integer(0, 2 ** 32 - 1)) << 32n) | BigInt(random.integer(0, 2 ** 32 - 1)),
    outputPosition: random.integer(0, 5000),
    sampleIndex: random.integer(0, 3),
    logprob: often(0.5),
    top: often(0.3)
      ? Math.min(vocabulary, often(0.2) ? tops[random.integer(0, 3)]! : random.integer(1, often(0.9) ? 30 : 600))
      : 0,
  };
}
