import { RESULT_WORDS } from '../gpu/sampler.ts';
import { readTop } from '../gpu/top-logprobs.ts';
import type { RunnerLimits, SampledRow } from './runner.ts';
import { type EncodedStep, MAX_REPEAT } from './step-metadata.ts';

/** Where the words of a step's results lie in its staging buffer: results step by step, then what few rows ask for. */
export interface StagingLayout {
  readonly topAt: number;
  readonly idsAt: number;
  readonly hiddenAt: number;
  readonly words: number;
}

export function stagingLayout(step: EncodedStep, hiddenSize: number): StagingLayout {
  const topAt = step.repeat * step.logits.length * RESULT_WORDS;
  const idsAt = topAt + step.top * 2;
  const hiddenAt = idsAt + step.ids;
  return { topAt, idsAt, hiddenAt, words: hiddenAt + step.hidden * hiddenSize };
}

/** Words that the results of any step within `limits` may take. */
export function maxStagingWords(limits: RunnerLimits): number {
  const repeated = limits.maxSequences * MAX_REPEAT * RESULT_WORDS;
  const { maxLogitsRows, maxTop, maxHiddenRows, hiddenSize } = limits;
  return Math.max(repeated, maxLogitsRows * RESULT_WORDS + maxTop * 3 + maxHiddenRows * hiddenSize);
}

/** A step's results in the order of its batch, from its staging buffer. */
export function readStep(step: EncodedStep, words: Uint32Array<ArrayBuffer>, hiddenSize: number): SampledRow[] {
  const { topAt, idsAt, hiddenAt } = stagingLayout(step, hiddenSize);
  const floats = new Float32Array(words.buffer, words.byteOffset, words.length);
  const tops = words.subarray(topAt, idsAt);
  const count = step.logits.length;
  const rows: SampledRow[] = new Array(step.repeat * count);
  for (let i = 0; i < step.repeat; i++) {
    let hidden = hiddenAt;
    step.logits.forEach((entry, record) => {
      const at = (i * count + record) * RESULT_WORDS;
      const idsFrom = idsAt + (entry.idsAt ?? 0);
      rows[i * count + entry.index] = {
        id: entry.scored ?? words[at]!,
        nonFinite: words[at + 1] !== 0,
        ...(entry.logprob ? { logprob: floats[at + 2]! } : {}),
        ...(entry.top > 0 ? { top: readTop(tops, entry.topAt, entry.top) } : {}),
        ...(entry.ids === undefined ? {} : { idLogprobs: floats.slice(idsFrom, idsFrom + entry.ids) }),
        ...(entry.hidden ? { hidden: floats.slice(hidden, hidden + hiddenSize) } : {}),
      };
      if (entry.hidden) hidden += hiddenSize;
    });
  }
  return rows;
}
