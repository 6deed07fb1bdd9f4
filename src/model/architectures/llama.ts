import type { Architecture } from '../architecture.ts';
import type { DecoderLayerConfig } from '../decoder-config.ts';
import { ConfigKeys } from './config-keys.ts';
import { llamaNames } from './llama-names.ts';
import { readGated, readHeads, readLayerCount } from './read-layers.ts';
import { readRope } from './read-rope.ts';

/** Llama 2 and 3, SmolLM and SmolLM2, and what else says it is one. */
export const LLAMA: Architecture = {
  names: ['LlamaForCausalLM'],
  prefix: 'model.',
  readConfig(config) {
    const keys = new ConfigKeys(config);
    const heads = readHeads(keys);
    const rope = readRope(keys, heads.headSize, { theta: 10_000 });
    const bias = keys.flag('attention_bias', false);
    const layer: DecoderLayerConfig = {
      attention: { ...heads, scale: heads.headSize ** -0.5, rope: 0, qkvBias: bias, outputBias: bias },
      feedForward: readGated(keys, keys.flag('mlp_bias', false)),
      norms: 'before',
      residualScale: 1,
    };
    const epsilon = keys.positive('rms_norm_eps', 1e-6);
    const layers = readLayerCount(keys);
    const tiedHead = keys.flag('tie_word_embeddings', false);
    keys.only('pretraining_tp', 1);
    keys.refuseOthers('is_llama_config');
    return {
      architecture: 'LlamaForCausalLM',
      vocabSize: config.vocabSize,
      contextLength: config.contextLength,
      hiddenSize: config.hiddenSize,
      embeddingScale: 1,
      norm: { kind: 'rms', epsilon, gainOffset: 0 },
      ropes: [rope],
      layers: Array.from({ length: layers }, () => layer),
      logitsScale: 1,
      tiedHead,
    };
  },
  tensorNames: (config) => llamaNames(config),
};
