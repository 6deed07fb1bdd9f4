import type { RopeConfig } from './decoder-config.ts';

/** How a rotary embedding is stretched over a longer context than it was trained on. */
export type RopeScaling =
  | { readonly kind: 'default' }
  /** All frequencies divided by `factor`. */
  | { readonly kind: 'linear'; readonly factor: number }
  /** Waves longer than context / lowFactor divided by `factor`, those shorter than context / highFactor left, a ramp between. */
  | {
      readonly kind: 'llama3';
      readonly factor: number;
      readonly lowFactor: number;
      readonly highFactor: number;
      readonly originalContext: number;
    }
  /** Pairs that turn fewer than betaSlow times in the original context divided by `factor`, those over betaFast left. */
  | {
      readonly kind: 'yarn';
      readonly factor: number;
      readonly originalContext: number;
      readonly betaFast: number;
      readonly betaSlow: number;
      /** The ramp between them begins and ends at whole pairs. */
      readonly truncate: boolean;
      readonly attentionFactor: number;
    }
  /** Each pair's frequency divided by its own factor. */
  | { readonly kind: 'longrope'; readonly factors: readonly number[]; readonly attentionFactor: number };

const { fround } = Math;

/**
 * A rotary embedding's frequencies, in float32 step by step as the reference computes them
 * (https://github.com/huggingface/transformers, modeling_rope_utils): at position 100,000 the rounding shows.
 */
export function ropeConfig(rotated: number, theta: number, scaling: RopeScaling): RopeConfig {
  const powers = Float32Array.from({ length: rotated / 2 }, (_, pair) => theta ** fround((2 * pair) / rotated));
  const plain = powers.map((power) => 1 / power);
  switch (scaling.kind) {
    case 'default':
      return { rotated, frequencies: plain, factor: 1 };
    case 'linear':
      return { rotated, frequencies: plain.map((frequency) => frequency / scaling.factor), factor: 1 };
    case 'llama3':
      return { rotated, frequencies: plain.map((frequency) => llama3(frequency, scaling)), factor: 1 };
    case 'yarn': {
      const kept = yarnRamp(rotated, theta, scaling);
      const frequencies = plain.map((frequency, pair) => {
        const stretched = fround(1 / fround(scaling.factor * powers[pair]!));
        return fround(stretched * fround(1 - kept[pair]!)) + fround(frequency * kept[pair]!);
      });
      return { rotated, frequencies, factor: scaling.attentionFactor };
    }
    case 'longrope': {
      const frequencies = powers.map((power, pair) => 1 / fround(fround(scaling.factors[pair]!) * power));
      return { rotated, frequencies, factor: scaling.attentionFactor };
    }
  }
}

function llama3(frequency: number, scaling: Extract<RopeScaling, { kind: 'llama3' }>): number {
  const { factor, lowFactor, highFactor, originalContext } = scaling;
  const wavelength = fround((2 * Math.PI) / frequency);
  if (wavelength > originalContext / lowFactor) return frequency / factor;
  if (wavelength < originalContext / highFactor) return frequency;
  const smooth = fround((fround(originalContext / wavelength) - lowFactor) / (highFactor - lowFactor));
  return fround((fround(1 - smooth) * frequency) / factor) + fround(smooth * frequency);
}

/** How much of its own frequency each pair keeps: 1 for those that turn often, 0 for slow ones. */
function yarnRamp(rotated: number, theta: number, scaling: Extract<RopeScaling, { kind: 'yarn' }>): Float32Array {
  const { originalContext, betaFast, betaSlow, truncate } = scaling;
  /** The pair that turns so many times within the original context. */
  const pairOf = (turns: number) =>
    (rotated * Math.log(originalContext / (turns * 2 * Math.PI))) / (2 * Math.log(theta));
  const low = Math.max(truncate ? Math.floor(pairOf(betaFast)) : pairOf(betaFast), 0);
  // The reference clamps to numbers, not to pairs.
  const high = Math.min(truncate ? Math.ceil(pairOf(betaSlow)) : pairOf(betaSlow), rotated - 1);
  const width = high === low ? 0.001 : high - low;
  return Float32Array.from({ length: rotated / 2 }, (_, pair) => {
    const ramp = fround((pair - low) / width);
    return 1 - Math.min(1, Math.max(0, ramp));
  });
}

/** What yarn multiplies cos and sin by for a factor of `scale`, unless a file says otherwise. */
export function yarnAttentionFactor(scale: number, mscale = 1): number {
  return scale <= 1 ? 1 : 0.1 * mscale * Math.log(scale) + 1;
}

/** The same of longrope. */
export function longropeAttentionFactor(scale: number, originalContext: number): number {
  return scale <= 1 ? 1 : Math.sqrt(1 + Math.log(scale) / Math.log(originalContext));
}
