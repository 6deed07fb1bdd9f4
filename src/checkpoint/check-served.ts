import { CheckpointError } from './checkpoint.ts';
import { ENCODER_TASKS } from './model-task.ts';

/** Decoders that nodes serve, by the class names of the reference implementation. */
export const DECODER_NAMES: readonly string[] = [
  ...['GPT2LMHeadModel', 'Gemma2ForCausalLM', 'Gemma3ForCausalLM', 'Gemma3ForConditionalGeneration'],
  ...[
    'GraniteForCausalLM',
    'LlamaForCausalLM',
    'MistralForCausalLM',
    'MixtralForCausalLM',
    'Olmo2ForCausalLM',
    'Phi3ForCausalLM',
    'Qwen2ForCausalLM',
  ],
  ...['Qwen3ForCausalLM', 'Qwen3MoeForCausalLM', 'SmolLM3ForCausalLM'],
];

/**
 * Refuses a model that no node can load, before any tries. Throws CheckpointError with the architectures that are known;
 * settings of one are the nodes' to check.
 */
export function checkServed(architectures: readonly string[]): void {
  const known = [...DECODER_NAMES, ...Object.keys(ENCODER_TASKS)];
  if (architectures.some((name) => known.includes(name))) return;
  throw new CheckpointError(`config.json: architectures are ${architectures.join(', ')}; known: ${known.join(', ')}`);
}
