import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { ModelConfig } from '../checkpoint/model-config.ts';
import {
  type EmbeddingNeed,
  type KernelNeeds,
  type ProductNeed,
  productKey,
  type RowKernel,
} from '../gpu/kernel-needs.ts';
import { MATVEC_COLUMNS } from '../gpu/linear-choice.ts';
import type { LinearForm } from '../gpu/linear-variant.ts';
import { planPairedParts, planParts } from '../gpu/plan-parts.ts';
import type { Quantisation } from '../gpu/quantise.ts';
import type { DecoderConfig, DecoderLayerConfig } from './decoder-config.ts';
import { attentionShape } from './decoder-layer.ts';
import { DecoderTensors } from './decoder-tensors.ts';
import { openDecoder } from './describe-decoder.ts';
import { ExpertsList } from './experts-list.ts';
import { attentionSources, expertSources, feedForwardSources, type ProductSources } from './layer-sources.ts';

export interface DecoderKernelsOptions {
  readonly quantisation?: Quantisation | undefined;
  /** Bytes that a storage binding may have. */
  readonly bindingLimit: number;
  /** See LoadOptions. */
  readonly adapters?: { readonly most: number } | undefined;
  /** No logits are made: see DecoderRange. */
  readonly headless?: boolean | undefined;
}

/**
 * Which kernels a decoder's steps run, from the names, shapes and types of its tensors alone: loadDecoder asks for the same
 * ones, unless scales turn out not to be halves. Throws CheckpointError, or RangeError where a tile is over the limit.
 */
export function decoderKernels(
  stored: Checkpoint,
  modelConfig: ModelConfig,
  { quantisation, bindingLimit, adapters, headless = false }: DecoderKernelsOptions,
): KernelNeeds {
  const { config, names, checkpoint } = openDecoder(stored, modelConfig);
  const { hiddenSize, vocabSize, learnedPositions } = config;
  const tensors = new DecoderTensors(checkpoint, undefined, quantisation);
  const products = new ProductList(bindingLimit);
  const experts = new ExpertsList(bindingLimit);
  const rows = new Set<RowKernel>([config.norm.kind === 'rms' ? 'rms-norm' : 'layer-norm']);
  config.layers.forEach((layer, index) => {
    const own = names.layer(index);
    const { normed, added } = formsOf(config, layer);
    const { qkNorm } = layer.attention;
    const { qkv, output } = attentionSources(tensors, config, index, own);
    if (!products.add(qkv, { finish: 'rotate', normed })) rows.add(qkNorm ? `rope ${qkNorm} norm` : 'rope');
    products.add(output, added(layer.attention.outputBias));
    if (layer.norms !== 'before') rows.add('add-normed');
    if (layer.feedForward.kind !== 'experts') {
      const { inner, down } = feedForwardSources(tensors, hiddenSize, layer.feedForward, own.feedForward);
      if (!products.add(inner, { finish: 'gate', normed })) rows.add('activate-rows');
      products.add(down, added(layer.feedForward.bias));
    }
    if (layer.feedForward.kind === 'experts') {
      const sources = expertSources(tensors, hiddenSize, layer.feedForward, own.feedForward);
      products.add({ sources: [sources.router], columns: hiddenSize }, { finish: 'store', normed });
      experts.add(hiddenSize, layer.feedForward, sources);
    }
    if (biasesEmitted(config, layer)) rows.add('norm-input');
    if (adapters && adapters.most > 0) rows.add('low-rank');
  });
  const rmsFirst = config.norm.kind === 'rms' && config.layers[0]!.norms !== 'after';
  if (rmsFirst && learnedPositions !== undefined) rows.add('norm-input');
  const embedding = tensors.matrix(names.embedding, vocabSize, hiddenSize);
  if (!headless) {
    const head = config.tiedHead ? embedding : tensors.matrix(names.head, vocabSize, hiddenSize);
    const mostColumns = MATVEC_COLUMNS.at(-1)!;
    products.add({ sources: [head], columns: hiddenSize }, { finish: 'store', normed: false }, mostColumns);
  }
  const embeddings: EmbeddingNeed[] = [
    { format: embedding.format, of: rmsFirst && learnedPositions === undefined ? 'tokens with norm' : 'tokens' },
  ];
  if (learnedPositions !== undefined && names.positions) {
    const { format } = tensors.matrix(names.positions, learnedPositions, hiddenSize, 'as it is');
    embeddings.push({ format, of: 'positions' });
  }
  return {
    products: products.needs,
    // Of what takes longest.
    attention: attentionShape(
      (config.layers.find(({ attention }) => !attention.window) ?? config.layers[0]!).attention,
    ),
    embeddings,
    vocabulary: headless ? undefined : vocabSize,
    rows: [...rows],
    ...(experts.need ? { experts: experts.need } : {}),
  };
}

/** How a layer's products read the residual stream, and how they go back into it. */
function formsOf(config: DecoderConfig, { norms }: DecoderLayerConfig) {
  const rms = config.norm.kind === 'rms';
  return {
    normed: rms && norms !== 'after',
    added: (bias: boolean): LinearForm => ({
      finish: norms !== 'before' ? 'store' : rms && !bias ? 'emit' : 'add',
      normed: false,
    }),
  };
}

/** Whether a product has a bias where it would leave the next norm its input. */
function biasesEmitted({ norm }: DecoderConfig, { norms, attention, feedForward }: DecoderLayerConfig): boolean {
  const biased = attention.outputBias || (feedForward.kind !== 'experts' && feedForward.bias);
  return norm.kind === 'rms' && norms === 'before' && biased;
}

class ProductList {
  readonly #bindingLimit: number;
  readonly #needs = new Map<string, ProductNeed>();

  constructor(bindingLimit: number) {
    this.#bindingLimit = bindingLimit;
  }

  get needs(): readonly ProductNeed[] {
    return [...this.#needs.values()];
  }

  /** Of a form with paired rows it is stored instead, and false, where its rows can't be paired. */
  add({ sources, columns, half }: ProductSources, form: LinearForm, mostColumns?: number): boolean {
    const wantsPairs = form.finish === 'gate' || form.finish === 'rotate';
    const paired = half === undefined ? undefined : planPairedParts(columns, sources, this.#bindingLimit, half);
    const own = wantsPairs && !paired ? { ...form, finish: 'store' as const } : form;
    for (const { tiles, format } of paired ?? planParts(columns, sources, this.#bindingLimit)) {
      const part = { tiles, columns, format };
      const key = productKey(part, own);
      const uses = (this.#needs.get(key)?.uses ?? 0) + 1;
      this.#needs.set(key, { part, form: own, uses, ...(mostColumns === undefined ? {} : { mostColumns }) });
    }
    return paired !== undefined;
  }
}
