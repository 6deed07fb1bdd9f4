import type { ModelConfig } from '../checkpoint/model-config.ts';
import type { EncoderConfig } from './encoder-config.ts';

/** Tensors of a product: weights [rows, columns] and bias [rows]. */
export interface DenseName {
  readonly weight: string;
  readonly bias: string;
}

/** Tensors of a LayerNorm. */
export type LayerNormName = DenseName;

export interface EncoderLayerNames {
  readonly query: DenseName;
  readonly key: DenseName;
  readonly value: DenseName;
  readonly attentionOutput: DenseName;
  readonly attentionNorm: LayerNormName;
  readonly up: DenseName;
  readonly down: DenseName;
  readonly outputNorm: LayerNormName;
}

/** What an encoder's tensors are called. */
export interface EncoderNames {
  readonly words: string;
  readonly positions: string;
  readonly types: string;
  readonly embeddingNorm: LayerNormName;
  layer(index: number): EncoderLayerNames;
  /** Of a classifier: what stands before and after the tanh. */
  readonly classifier?: { readonly dense: DenseName; readonly output: DenseName };
}

/** One family of encoders: what its config.json means and what its tensors are called. */
export interface EncoderArchitecture {
  /** As config.json's architectures has them. */
  readonly names: readonly string[];
  /** Throws CheckpointError naming the key, also for a setting that it doesn't know. */
  readConfig(config: ModelConfig): EncoderConfig;
  /** `has`: whether the checkpoint has a tensor of that name, since published ones differ. */
  tensorNames(config: EncoderConfig, has: (name: string) => boolean): EncoderNames;
}

/** Names of the BERT family's own tensors under `prefix`, where the checkpoint has it. */
export function bertNames(prefix: string, has: (name: string) => boolean): Omit<EncoderNames, 'classifier'> {
  const under = has(`${prefix}embeddings.word_embeddings.weight`) ? prefix : '';
  const dense = (name: string): DenseName => ({ weight: `${under}${name}.weight`, bias: `${under}${name}.bias` });
  const norm = (name: string): LayerNormName => {
    // Checkpoints made of TensorFlow's call them so.
    const old = { weight: `${under}${name}.gamma`, bias: `${under}${name}.beta` };
    return has(old.weight) ? old : dense(name);
  };
  return {
    words: `${under}embeddings.word_embeddings.weight`,
    positions: `${under}embeddings.position_embeddings.weight`,
    types: `${under}embeddings.token_type_embeddings.weight`,
    embeddingNorm: norm('embeddings.LayerNorm'),
    layer: (index) => {
      const layer = `encoder.layer.${index}`;
      return {
        query: dense(`${layer}.attention.self.query`),
        key: dense(`${layer}.attention.self.key`),
        value: dense(`${layer}.attention.self.value`),
        attentionOutput: dense(`${layer}.attention.output.dense`),
        attentionNorm: norm(`${layer}.attention.output.LayerNorm`),
        up: dense(`${layer}.intermediate.dense`),
        down: dense(`${layer}.output.dense`),
        outputNorm: norm(`${layer}.output.LayerNorm`),
      };
    },
  };
}
