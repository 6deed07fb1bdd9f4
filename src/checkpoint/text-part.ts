/** Of a model of several kinds of input, what is its text part: that alone is served. */
export interface TextPart {
  /** Keys that any config must have, as the class of text_config has them where they are absent. */
  readonly absent: Readonly<Record<string, unknown>>;
  /** Keys of config.json that speak of other parts. */
  readonly others: readonly string[];
  /** Tensors of other parts, by what their names begin with. */
  readonly otherTensors: RegExp;
  /** What stands before, or in, the text part's names: they are those of a model of text without it. */
  readonly wrapper: RegExp;
}

/** By config.json's architectures. */
const TEXT_PARTS: Readonly<Record<string, TextPart>> = {
  Gemma3ForConditionalGeneration: {
    absent: {
      ...{ vocab_size: 262_208, max_position_embeddings: 131_072, hidden_size: 2304, intermediate_size: 9216 },
      ...{ num_hidden_layers: 26, num_attention_heads: 8 },
    },
    others: [
      ...['text_config', 'vision_config', 'mm_tokens_per_image', 'boi_token_index', 'eoi_token_index'],
      ...['image_token_index', 'boi_token_id', 'eoi_token_id', 'image_token_id'],
    ],
    otherTensors: /^(model\.)?(vision_tower|multi_modal_projector)\./,
    // Released files have language_model.model.layers.0…, those of later code model.language_model.layers.0….
    wrapper: /(?<=^(?:model\.)?)language_model\./,
  },
};

/** The text part of a model with one of these `architectures`; undefined where all of it is text. */
export function textPartOf(architectures: readonly string[]): TextPart | undefined {
  const name = architectures.find((each) => Object.hasOwn(TEXT_PARTS, each));
  return name === undefined ? undefined : TEXT_PARTS[name];
}

/**
 * A config.json whose text part has an object of its own, as that of a model of text: what text_config says, ids and
 * the like from around it, nothing of other parts. Any other config as it is.
 */
export function textConfig(raw: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { architectures, model_type, text_config: text } = raw;
  const part = Array.isArray(architectures) ? textPartOf(architectures) : undefined;
  if (part === undefined || typeof text !== 'object' || text === null) return raw;
  const own = Object.entries(raw).filter(([key]) => !part.others.includes(key));
  const ids = own.filter(([key, value]) => key.endsWith('_token_id') && value !== null);
  return { ...part.absent, ...Object.fromEntries(own), ...text, ...Object.fromEntries(ids), architectures, model_type };
}

/** What a model of text calls a tensor of this one's text part; undefined for a tensor of another part. */
export function textTensorName(stored: string, { otherTensors, wrapper }: TextPart): string | undefined {
  return otherTensors.test(stored) ? undefined : stored.replace(wrapper, '');
}
