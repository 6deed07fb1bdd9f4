import { CheckpointError } from './checkpoint.ts';

/** A product that a pooled vector goes through: activation(W x + b), of a file of its own. */
export interface DenseModule {
  /** Its safetensors, with `linear.weight` and `linear.bias`. */
  readonly file: string;
  readonly inputs: number;
  readonly outputs: number;
  readonly bias: boolean;
  readonly activation: 'tanh' | 'identity';
}

const ACTIVATIONS: Readonly<Record<string, DenseModule['activation']>> = {
  'torch.nn.modules.activation.Tanh': 'tanh',
  'torch.nn.modules.linear.Identity': 'identity',
};

/**
 * Reads the config.json of sentence-transformers' Dense in the folder `path`; `inputs` is what comes before it. Throws
 * CheckpointError naming file and key.
 */
export function readDenseModule(path: string, config: Readonly<Record<string, unknown>>, inputs: number): DenseModule {
  const { in_features, out_features, bias = true, activation_function, ...others } = config;
  const fail = (key: string, value: unknown, what: string): never => {
    throw new CheckpointError(`${path}/config.json: ${key} is ${JSON.stringify(value)}${what}`);
  };
  if (in_features !== inputs) fail('in_features', in_features, `, and ${inputs} numbers come before it`);
  if (!(Number.isSafeInteger(out_features) && (out_features as number) >= 1 && (out_features as number) <= 65_536)) {
    fail('out_features', out_features, ', not a size up to 65536');
  }
  if (typeof bias !== 'boolean') fail('bias', bias, ', neither true nor false');
  const known = typeof activation_function === 'string' && Object.hasOwn(ACTIVATIONS, activation_function);
  // Its default.
  const activation = activation_function === undefined ? 'tanh' : known ? ACTIVATIONS[activation_function] : undefined;
  if (!activation)
    fail('activation_function', activation_function, `; ${Object.keys(ACTIVATIONS).join(', ')} are served`);
  for (const [key, value] of Object.entries(others)) {
    const usual = /^module_(in|out)put_name$/.test(key) && value === 'sentence_embedding';
    if (!usual && value !== null && value !== false) fail(key, value, ', which is not served');
  }
  return {
    ...{ file: `${path}/model.safetensors`, inputs, outputs: out_features as number, bias: bias as boolean },
    activation: activation!,
  };
}
