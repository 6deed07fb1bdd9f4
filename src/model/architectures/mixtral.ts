import type { Architecture, FeedForwardNames } from '../architecture.ts';
import { ConfigKeys } from './config-keys.ts';
import { decoderOf, layersOf } from './decoder-of.ts';
import { llamaNames, ROTARY_BUFFERS } from './llama-names.ts';
import { readExpertCounts, readHeads, readLayerCount, windowOf } from './read-layers.ts';
import { readRope } from './read-rope.ts';

/** Mixtral: a Mistral with experts in every layer; the chosen ones' probabilities add up to 1. */
export const MIXTRAL: Architecture = {
  names: ['MixtralForCausalLM'],
  prefix: 'model.',
  buffers: ROTARY_BUFFERS,
  readConfig(config) {
    const keys = new ConfigKeys(config);
    const heads = readHeads(keys, { kvHeads: 8 });
    const window = windowOf(keys, keys.optionalSize('sliding_window'));
    const attention = {
      ...heads,
      ...window,
      scale: heads.headSize ** -0.5,
      rope: 0,
      qkvBias: false,
      outputBias: false,
    };
    const feedForward = {
      kind: 'experts',
      ...readExpertCounts(keys, 'num_local_experts', { experts: 8, chosen: 2 }),
      size: keys.size('intermediate_size'),
      activation: keys.activation('hidden_act', 'silu'),
      normalised: true,
    } as const;
    const decoder = decoderOf(keys, {
      architecture: 'MixtralForCausalLM',
      norm: { kind: 'rms', epsilon: keys.positive('rms_norm_eps', 1e-5), gainOffset: 0 },
      ropes: [readRope(keys, heads.headSize, { theta: 1_000_000 })],
      layers: layersOf(readLayerCount(keys), () => ({ attention, feedForward, norms: 'before', residualScale: 1 })),
      tiedHead: keys.flag('tie_word_embeddings', false),
    });
    keys.refuseOthers('output_router_logits', 'router_aux_loss_coef', 'router_jitter_noise');
    return decoder;
  },
  tensorNames: (config) =>
    llamaNames(config, (prefix, { feedForward }) =>
      feedForward.kind === 'experts'
        ? { feedForward: expertNames(`${prefix}.block_sparse_moe`, feedForward.experts) }
        : {},
    ),
};

function expertNames(prefix: string, experts: number): FeedForwardNames {
  const matrix = (name: string) => ({ tensor: `${prefix}.${name}.weight` });
  return {
    kind: 'experts',
    router: matrix('gate'),
    experts: Array.from({ length: experts }, (_, expert) => ({
      gate: matrix(`experts.${expert}.w1`),
      up: matrix(`experts.${expert}.w3`),
      down: matrix(`experts.${expert}.w2`),
    })),
  };
}
