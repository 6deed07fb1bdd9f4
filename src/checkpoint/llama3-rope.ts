/** The low and high frequency factor and the original context that all Llama 3.1, 3.2 and 3.3 models were made with. */
const LOW = 1;
const HIGH = 4;
const CONTEXT = 8192;

/** The factor that Llama 3's rope divides the frequency of pair `pair` by, for a factor of `factor` in all. */
function divisor(pair: number, headSize: number, theta: number, factor: number): number {
  const wavelength = 2 * Math.PI * theta ** ((2 * pair) / headSize);
  if (wavelength < CONTEXT / HIGH) return 1;
  if (wavelength > CONTEXT / LOW) return factor;
  const smooth = (CONTEXT / wavelength - LOW) / (HIGH - LOW);
  return 1 / ((1 - smooth) / factor + smooth);
}

/**
 * Hugging Face's rope_scaling for the divisors of the frequencies, one a pair of a head's numbers, that GGUF files have
 * instead; undefined where they are not those of Llama 3's rope
 * (https://github.com/huggingface/transformers, modeling_rope_utils: llama3).
 */
export function llama3Scaling(
  divisors: ArrayLike<number>,
  headSize: number,
  theta: number,
): Readonly<Record<string, unknown>> | undefined {
  // The lowest frequency is divided by the whole factor.
  const factor = divisors[divisors.length - 1];
  if (divisors.length !== headSize / 2 || factor === undefined) return undefined;
  for (let pair = 0; pair < divisors.length; pair++) {
    const expected = divisor(pair, headSize, theta, factor);
    if (!(Math.abs(divisors[pair]! - expected) <= 1e-4 * expected)) return undefined;
  }
  return {
    rope_type: 'llama3',
    factor,
    low_freq_factor: LOW,
    high_freq_factor: HIGH,
    original_max_position_embeddings: CONTEXT,
  };
}
