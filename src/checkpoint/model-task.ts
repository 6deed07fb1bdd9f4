/** What a model is for: text that goes on, vectors of texts, or logits of classes (rerankers among them). */
export type ModelTask = 'generate' | 'embed' | 'classify';

/** What each encoder is for; an encoder can't generate. */
export const ENCODER_TASKS: Readonly<Record<string, ModelTask>> = {
  BertModel: 'embed',
  BertForSequenceClassification: 'classify',
  XLMRobertaModel: 'embed',
  XLMRobertaForSequenceClassification: 'classify',
};

/** Which modules turn a model's hidden states into a vector; its folder has it where the model is for that. */
export const MODULES_FILE = 'modules.json';

/**
 * What a model is for: by its architecture where that is an encoder's, else by whether its files say how hidden states become
 * a vector, as those of decoders that embed do.
 */
export function modelTask(pools: boolean, architectures: readonly string[]): ModelTask {
  for (const architecture of architectures) {
    if (Object.hasOwn(ENCODER_TASKS, architecture)) return ENCODER_TASKS[architecture]!;
  }
  return pools ? 'embed' : 'generate';
}
