import type { ByteSource } from './byte-source.ts';
import type { Checkpoint } from './checkpoint.ts';
import { type Gguf, readGguf } from './gguf.ts';
import type { GgufArchitecture } from './gguf-architecture.ts';
import { ggufCheckpoint } from './gguf-checkpoint.ts';
import { GGUF_ARCHITECTURES } from './gguf-families.ts';
import { type GgufTokenizer, ggufTokenizer } from './gguf-tokenizer.ts';
import { ggufVocabulary } from './gguf-vocabulary.ts';
import { type ModelConfig, parseModelConfig } from './model-config.ts';
import type { PoolingConfig } from './sentence-transformers.ts';

/** All that a GGUF file says of a model, in the form that a Hugging Face folder has it. */
export interface GgufModel extends GgufTokenizer {
  /** Tensors under Hugging Face's names, rows in Hugging Face's order, types GGML's. */
  readonly checkpoint: Checkpoint;
  /** config.json. */
  readonly configJson: string;
  readonly config: ModelConfig;
  /** How vectors are made, of a model that is for that; undefined: the file says nothing of it. */
  readonly pooling: PoolingConfig | undefined;
}

/**
 * Opens a GGUF file as a model. Holds its metadata, no tensor. Rejects with CheckpointError naming file, key or tensor,
 * and reason.
 */
export async function openGguf(source: ByteSource): Promise<GgufModel> {
  const gguf = await readGguf(source);
  const architecture = ggufArchitecture(gguf);
  const description = await architecture(gguf);
  const vocabulary = ggufVocabulary(gguf);
  const configJson = JSON.stringify({
    ...description.config,
    bos_token_id: vocabulary.bos ?? null,
    eos_token_id: vocabulary.ends,
    pad_token_id: vocabulary.padding ?? null,
  });
  const config = parseModelConfig(configJson, source.name);
  if (vocabulary.tokens.length > config.vocabSize) {
    gguf.metadata.fail('tokenizer.ggml.tokens', `has ${vocabulary.tokens.length} tokens of ${config.vocabSize}`);
  }
  return {
    checkpoint: ggufCheckpoint(gguf, description),
    configJson,
    config,
    // llama.cpp's server, which such files are made for, gives vectors of length 1.
    pooling: description.pooling && { kind: description.pooling, normalised: true },
    ...ggufTokenizer(gguf, vocabulary),
  };
}

function ggufArchitecture({ metadata }: Gguf): GgufArchitecture {
  const name = metadata.string('general.architecture');
  if (name !== undefined && Object.hasOwn(GGUF_ARCHITECTURES, name)) return GGUF_ARCHITECTURES[name]!;
  const known = Object.keys(GGUF_ARCHITECTURES).join(', ');
  return metadata.fail(
    'general.architecture',
    name === undefined ? 'is missing' : `is ${JSON.stringify(name)}; known: ${known}`,
  );
}
