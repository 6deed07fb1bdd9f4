import { bertNames, type EncoderArchitecture } from '../encoder-names.ts';
import { readEncoderConfig } from '../read-encoder-config.ts';

const CLASSIFIER = 'BertForSequenceClassification';

/** BERT (Devlin et al., 2018), as an encoder and with a classifier on its pooler: MiniLM, BGE, E5, the older GTE. */
export const bert: EncoderArchitecture = {
  names: ['BertModel', CLASSIFIER],
  readConfig: (config) => {
    const classifies = config.architectures.includes(CLASSIFIER);
    const architecture = classifies ? CLASSIFIER : 'BertModel';
    return readEncoderConfig(config, { architecture, padded: false, classifies });
  },
  tensorNames: (config, has) => {
    const names = bertNames('bert.', has);
    if (!config.classifier) return names;
    const prefix = has('bert.pooler.dense.weight') ? 'bert.' : '';
    return {
      ...names,
      classifier: {
        dense: { weight: `${prefix}pooler.dense.weight`, bias: `${prefix}pooler.dense.bias` },
        output: { weight: 'classifier.weight', bias: 'classifier.bias' },
      },
    };
  },
};
