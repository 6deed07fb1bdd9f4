import { type Checkpoint, CheckpointError } from '../checkpoint/checkpoint.ts';
import type { ModelConfig } from '../checkpoint/model-config.ts';
import { type TextPart, textPartOf } from '../checkpoint/text-part.ts';
import type { DecoderNames } from './architecture.ts';
import { architectureOf } from './architecture-of.ts';
import { decoderCheckpoint } from './decoder-checkpoint.ts';
import type { AttentionConfig, DecoderConfig } from './decoder-config.ts';

/** A model's config as a decoder's, and what its tensors are called. */
export interface DecoderDescription {
  readonly config: DecoderConfig;
  readonly names: DecoderNames;
  /** Of a model of several kinds of input, whose own names differ from these. */
  readonly textPart: TextPart | undefined;
}

/** Throws CheckpointError naming the key, also for an architecture or a setting that isn't served. */
export function describeDecoder(modelConfig: ModelConfig): DecoderDescription {
  const architecture = architectureOf(modelConfig);
  const config = architecture.readConfig(modelConfig);
  checkAlike(config);
  return { config, names: architecture.tensorNames(config), textPart: textPartOf(modelConfig.architectures) };
}

/** Likewise, with its checkpoint under these names. Throws CheckpointError, also for tensors that the model has no use for. */
export function openDecoder(
  stored: Checkpoint,
  modelConfig: ModelConfig,
): DecoderDescription & { readonly checkpoint: Checkpoint } {
  const described = describeDecoder(modelConfig);
  const architecture = architectureOf(modelConfig);
  const { config, textPart } = described;
  return { ...described, checkpoint: decoderCheckpoint(stored, architecture, config, textPart) };
}

/** A layer's attention; all have the same heads. */
export function anyAttention({ layers }: DecoderConfig): AttentionConfig {
  return layers[0]!.attention;
}

/** Attention's kernels are made for one shape of heads, and one of caps. */
function checkAlike({ architecture, layers, contextLength, learnedPositions }: DecoderConfig): void {
  const shapes = new Set(
    layers.map(({ attention: { heads, kvHeads, headSize, cap } }) => `${heads}/${kvHeads} × ${headSize}, cap ${cap}`),
  );
  if (shapes.size !== 1) {
    throw new CheckpointError(`config.json: ${architecture} with layers of heads ${[...shapes].join(' and ')}`);
  }
  if (learnedPositions !== undefined && learnedPositions < contextLength) {
    throw new CheckpointError(`config.json: a context of ${contextLength} over ${learnedPositions} learned positions`);
  }
}
