import { bertNames, type EncoderArchitecture } from '../encoder-names.ts';
import { readEncoderConfig } from '../read-encoder-config.ts';

const CLASSIFIER = 'XLMRobertaForSequenceClassification';

/** XLM-RoBERTa (Conneau et al., 2019): BERT with positions after the padding id's, and a head of its own: BGE-M3, E5, rerankers. */
export const xlmRoberta: EncoderArchitecture = {
  names: ['XLMRobertaModel', CLASSIFIER],
  readConfig: (config) => {
    const classifies = config.architectures.includes(CLASSIFIER);
    const architecture = classifies ? CLASSIFIER : 'XLMRobertaModel';
    return readEncoderConfig(config, { architecture, padded: true, classifies });
  },
  tensorNames: (config, has) => {
    const names = bertNames('roberta.', has);
    if (!config.classifier) return names;
    return {
      ...names,
      classifier: {
        dense: { weight: 'classifier.dense.weight', bias: 'classifier.dense.bias' },
        output: { weight: 'classifier.out_proj.weight', bias: 'classifier.out_proj.bias' },
      },
    };
  },
};
