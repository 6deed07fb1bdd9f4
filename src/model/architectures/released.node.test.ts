import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { checkServed } from '../../checkpoint/check-served.ts';
import { CheckpointError } from '../../checkpoint/checkpoint.ts';
import { parseModelConfig } from '../../checkpoint/model-config.ts';
import type { DecoderConfig } from '../decoder-config.ts';
import { describeDecoder } from '../describe-decoder.ts';
import type { EncoderConfig } from '../encoder-config.ts';
import { encoderOf } from '../encoders.ts';

/** What a config.json comes to, in the words of a DecoderConfig; where a key is absent it is as in most models. */
interface Reads {
  readonly layers: number;
  /** Heads, KV heads, numbers of a head. */
  readonly heads: readonly [number, number, number];
  readonly context: number;
  /** Each window, and how many layers have it. */
  readonly windows: readonly (readonly [number, number])[];
  /** Of each: numbers rotated, the factor of cos and sin, and positions in which the slowest pair turns by a radian. */
  readonly ropes: readonly (readonly [number, number, number])[];
  readonly tied: boolean;
  readonly epsilon: number;
  readonly scale: number;
  readonly inner: number;
  readonly vocabulary: number;
  readonly embeddingScale?: number;
  readonly logitsScale?: number;
  readonly residualScale?: number;
  /** Of scores and of logits. */
  readonly caps?: readonly [number | null, number | null];
  /** Layers that don't rotate. */
  readonly unrotated?: readonly number[];
  /** Of queries, keys and values; of the output. */
  readonly biases?: readonly [boolean, boolean];
  readonly qkNorm?: 'head' | 'row';
  /** How many, and how many of them are chosen. */
  readonly experts?: readonly [number, number];
}

interface Released {
  readonly model: string;
  /** As the model's repository has it, but that longrope's factors are made up. */
  readonly config: object;
  readonly reads?: Reads;
  /** Why it isn't served. */
  readonly refused?: string;
}

/** Configs of popular checkpoints, one a line; what they come to is from the formulas of transformers. */
function released<T>(file: string): readonly T[] {
  const text = readFileSync(new URL(`./testing/${file}`, import.meta.url), 'utf8');
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as T);
}

function readsOf(config: DecoderConfig): Required<Reads> {
  const { layers, ropes } = config;
  const { attention, feedForward, residualScale } = layers[0]!;
  const windows = new Map<number, number>();
  for (const {
    attention: { window },
  } of layers)
    if (window) windows.set(window, (windows.get(window) ?? 0) + 1);
  return {
    layers: layers.length,
    heads: [attention.heads, attention.kvHeads, attention.headSize],
    context: config.contextLength,
    windows: [...windows],
    ropes: ropes.map(({ rotated, factor, frequencies }) => [rotated, factor, 1 / frequencies.at(-1)!]),
    tied: config.tiedHead,
    epsilon: config.norm.epsilon,
    scale: attention.scale,
    inner: feedForward.size,
    vocabulary: config.vocabSize,
    embeddingScale: config.embeddingScale,
    logitsScale: config.logitsScale,
    residualScale,
    caps: [attention.cap ?? null, config.logitsCap ?? null],
    unrotated:
      ropes.length === 0 ? [] : layers.flatMap(({ attention: { rope } }, i) => (rope === undefined ? [i] : [])),
    biases: [attention.qkvBias, attention.outputBias],
    qkNorm: attention.qkNorm!,
    experts: feedForward.kind === 'experts' ? [feedForward.experts, feedForward.chosen] : [0, 0],
  };
}

const USUAL = {
  ...{ embeddingScale: 1, logitsScale: 1, residualScale: 1, caps: [null, null], unrotated: [], experts: [0, 0] },
  ...{ biases: [false, false], qkNorm: undefined },
};

test.each(released<Released>('released-decoders.jsonl'))('$model', ({ config, reads, refused }) => {
  const read = () => describeDecoder(parseModelConfig(JSON.stringify(config), 'config.json'));
  if (refused !== undefined) {
    expect(read).toThrow(CheckpointError);
    expect(read).toThrow(new RegExp(refused));
    return;
  }
  const { ropes, scale, ...own } = readsOf(read().config);
  const { ropes: expectedRopes, scale: expectedScale, ...expected } = reads!;
  expect(own).toEqual({ ...USUAL, ...expected });
  expect(scale).toBeCloseTo(expectedScale, 12);
  expect(ropes.map(([rotated]) => rotated)).toEqual(expectedRopes.map(([rotated]) => rotated));
  expectedRopes.forEach(([, factor, period], r) => {
    expect(ropes[r]![1]).toBeCloseTo(factor, 9);
    expect(ropes[r]![2] / period).toBeCloseTo(1, 5);
  });
});

type ReleasedEncoder = Omit<Released, 'reads'> & { readonly reads?: Partial<EncoderConfig> };

test.each(released<ReleasedEncoder>('released-encoders.jsonl'))('$model', ({ config, reads, refused }) => {
  const parsed = parseModelConfig(JSON.stringify(config), 'config.json');
  if (refused !== undefined) {
    expect(() => checkServed(parsed.architectures)).toThrow(new RegExp(refused));
    return;
  }
  const { architecture, positions, ...own } = encoderOf(parsed).readConfig(parsed);
  expect(own).toEqual(reads);
  expect(parsed.architectures).toEqual([architecture]);
  expect(positions).toBe(own.contextLength + (own.positionPad === undefined ? 0 : own.positionPad + 1));
});
