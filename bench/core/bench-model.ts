import { bytesSource } from '../../src/checkpoint/byte-source.ts';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import { type ModelConfig, parseModelConfig } from '../../src/checkpoint/model-config.ts';
import { openSafetensors } from '../../src/checkpoint/safetensors.ts';
import { readTokenBytes, type TokenBytes } from '../../src/checkpoint/token-bytes.ts';
import type { WeightFormat } from '../../src/gpu/weight-format.ts';
import { describeDecoder } from '../../src/model/describe-decoder.ts';
import { type PlainDecoder, plainDecoder } from '../../src/model/plain-decoder.ts';
import { type RandomDtype, randomCheckpoint } from './random-checkpoint.ts';

/** Which model a run is about; plain data. */
export interface ModelChoice {
  readonly name: string;
  readonly configText: string;
  /** Instead of random weights: where safetensors and tokenizer.json of a real model are. */
  readonly folder: string | undefined;
  /** Of random weights; undefined: what the config says. */
  readonly weights: WeightFormat | undefined;
}

export interface BenchModel {
  readonly name: string;
  readonly config: ModelConfig;
  readonly llama: PlainDecoder;
  readonly checkpoint: Checkpoint;
  readonly tokens: TokenBytes;
  readonly weights: WeightFormat;
}

const DTYPES: Readonly<Record<WeightFormat, RandomDtype>> = { f32: 'F32', f16: 'F16', bf16: 'BF16' };
const TORCH_TYPES: Readonly<Record<string, WeightFormat>> = { float32: 'f32', float16: 'f16', bfloat16: 'bf16' };

export async function openModel(
  choice: ModelChoice,
  readFile: (path: string) => Promise<Uint8Array>,
): Promise<BenchModel> {
  const { name, folder } = choice;
  const config = parseModelConfig(choice.configText, `${name}.json`);
  const llama = plainDecoder(describeDecoder(config).config);
  const stored = TORCH_TYPES[String(config.raw.torch_dtype)] ?? 'f32';
  if (folder !== undefined) {
    const [bytes, tokenizer] = await Promise.all(
      ['model.safetensors', 'tokenizer.json'].map((file) => readFile(`${folder}/${file}`)),
    );
    const checkpoint = await openSafetensors(bytesSource('model.safetensors', bytes!));
    const tokens = readTokenBytes(new TextDecoder().decode(tokenizer), 'tokenizer.json');
    return { name, config, llama, checkpoint, tokens, weights: stored };
  }
  const weights = choice.weights ?? stored;
  const checkpoint = randomCheckpoint(name, config, DTYPES[weights]);
  return { name, config, llama, checkpoint, tokens: anyTokens(llama.vocabSize), weights };
}

/** Every token is the letter a: random weights have no vocabulary, and nothing looks at their text. */
export function anyTokens(vocabSize: number): TokenBytes {
  const letter = Uint8Array.of(97);
  return { vocabSize, bytes: () => letter, isSpecial: () => false, stripStart: 0 };
}
