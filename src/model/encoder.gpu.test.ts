import { expect, test, vi } from 'vitest';
import { parseModelConfig } from '../checkpoint/model-config.ts';
import { staysUnread } from '../checkpoint/unread-tensors.ts';
import { testDevice } from '../testing/device.ts';
import { encoderOf } from './encoders.ts';
import { type EncoderOptions, loadEncoder } from './load-encoder.ts';
import {
  GOLDEN_ENCODERS,
  GOLDEN_SEQUENCES,
  goldenModel,
  largestDifference,
  withTensors,
} from './testing/golden-encoders.ts';

const OPTIONS: EncoderOptions = {
  ...{ pooling: 'mean', normalised: true, maxRows: 96, maxSequences: 4, scratchBytes: 1 << 24 },
};

const long = import.meta.env.SHOAL_LONG === '1' || import.meta.env.SHOAL_LONG === 'true';

/** The classifier takes the first position, whatever the pooling. */
const CASES = GOLDEN_ENCODERS.flatMap((name, i) => {
  const both = long && !name.endsWith('classifier');
  return (both ? (['mean', 'cls'] as const) : [i % 2 === 0 ? ('mean' as const) : ('cls' as const)]).map(
    (pooling) => [name, pooling] as const,
  );
});

test.each(CASES)('hidden states and result of %s, %s, are the reference to 2e-3', async (name, pooling) => {
  const model = await goldenModel(name);
  const { hiddenSize, layers, classifier } = encoderOf(model.config).readConfig(model.config);
  const told: (readonly [number, number])[] = [];
  const onProgress = (loaded: number, total: number) => told.push([loaded, total]);
  const options = { ...OPTIONS, pooling, onProgress };
  const runner = await loadEncoder(await testDevice(), model.checkpoint, model.config, options);
  try {
    // What lies beside it, such as a pooler that nothing stands on, is not read, and isn't waited for.
    const about = { task: classifier ? 'classify' : 'embed', isEncoder: true, tiedHead: true } as const;
    const read = [...model.checkpoint.tensors.values()].filter((tensor) => !staysUnread(tensor.name, about));
    const bytes = read.reduce((sum, { byteLength }) => sum + byteLength, 0);
    expect(new Set(told.map(([, total]) => total))).toEqual(new Set([bytes]));
    expect(told.at(-1)![0]).toBe(bytes);
    const sequences = await Promise.all(GOLDEN_SEQUENCES.map((index) => model.sequence(index)));
    const dispatches = vi.spyOn(GPUComputePassEncoder.prototype, 'dispatchWorkgroups');
    const together = await runner.embed(sequences);
    expect(dispatches.mock.calls.length).toBe(9 * layers + (classifier ? 5 : 3));
    for (const index of GOLDEN_SEQUENCES) {
      const golden = async (tensor: string) => (await model.golden(`${tensor}_${index}`))!;
      expect(largestDifference(together[index]!, await golden(classifier ? 'logits' : pooling))).toBeLessThan(2e-3);
      // By itself, the same bits.
      const [alone] = await runner.embed([sequences[index]!]);
      expect(together[index]).toEqual(alone);
      const hidden = await runner.hidden(sequences[index]!);
      expect(hidden).toHaveLength(sequences[index]!.ids.length * hiddenSize);
      expect(largestDifference(hidden, await golden('last_hidden'))).toBeLessThan(2e-3);
    }
  } finally {
    vi.restoreAllMocks();
    runner.destroy();
  }
});

test("BERT's pooler is the reference to 2e-3", async () => {
  const model = await goldenModel('bert');
  const size = model.config.hiddenSize;
  // A classifier of as many classes as there are columns, each the pooler's own.
  const identity = Float32Array.from({ length: size * size }, (_, i) => (i % (size + 1) === 0 ? 1 : 0));
  const checkpoint = withTensors(model.checkpoint, {
    'classifier.weight': { shape: [size, size], values: identity },
    'classifier.bias': { shape: [size], values: new Float32Array(size) },
  });
  const raw = { ...model.config.raw, architectures: ['BertForSequenceClassification'], num_labels: size };
  const config = parseModelConfig(JSON.stringify(raw), 'config.json');
  const runner = await loadEncoder(await testDevice(), checkpoint, config, OPTIONS);
  try {
    const pooled = await runner.embed([await model.sequence(1)]);
    expect(largestDifference(pooled[0]!, (await model.golden('pooler_1'))!)).toBeLessThan(2e-3);
  } finally {
    runner.destroy();
  }
});
