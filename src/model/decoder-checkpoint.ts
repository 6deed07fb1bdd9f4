import { type Checkpoint, CheckpointError, type TensorInfo } from '../checkpoint/checkpoint.ts';
import { type TextPart, textTensorName } from '../checkpoint/text-part.ts';
import type { Architecture, DecoderNames, MatrixName, NormName, ProductName } from './architecture.ts';
import type { DecoderConfig } from './decoder-config.ts';
import { refuseUnused } from './refuse-unused.ts';

/**
 * A checkpoint with the names that `architecture` gives and no other: files of a model without its head leave out the
 * prefix, and some hold masks, rotary frequencies, or the head of a model that ties it; a model of several kinds of input
 * has other parts beside its text part, and names of its own for that. Throws CheckpointError with the
 * names of the tensors that would stay unused: what an adapter or another model has of its own would run wrong without.
 */
export function decoderCheckpoint(
  checkpoint: Checkpoint,
  architecture: Architecture,
  config: DecoderConfig,
  textPart?: TextPart,
): Checkpoint {
  const names = architecture.tensorNames(config);
  const wanted = tensorsOf(names, config);
  const { prefix, buffers } = architecture;
  const head = names.head.tensor;
  const tensors = new Map<string, TensorInfo>();
  const originals = new Map<string, TensorInfo>();
  const unused: string[] = [];
  for (const [stored, tensor] of checkpoint.tensors) {
    const own = textPart ? textTensorName(stored, textPart) : stored;
    if (own === undefined) continue;
    const name = own === head || own.startsWith(prefix) ? own : `${prefix}${own}`;
    if (wanted.has(name)) {
      if (tensors.has(name)) {
        throw new CheckpointError(
          `${checkpoint.name}: tensors ${originals.get(name)!.name} and ${stored} are the same`,
        );
      }
      tensors.set(name, { ...tensor, name });
      originals.set(name, tensor);
    } else if (name !== head && !buffers?.test(name)) {
      unused.push(stored);
    }
  }
  refuseUnused(checkpoint.name, config.architecture, unused);
  return {
    name: checkpoint.name,
    tensors,
    read({ name }, from, length) {
      const tensor = originals.get(name);
      if (tensor === undefined) throw new CheckpointError(`${checkpoint.name}: tensor ${name} is missing`);
      return checkpoint.read(tensor, from, length);
    },
  };
}

/** Names of all tensors that are read. */
export function tensorsOf(names: DecoderNames, config: DecoderConfig): ReadonlySet<string> {
  const all = new Set<string>();
  const matrix = (name: MatrixName | undefined) => name && all.add(name.tensor);
  const product = ({ weight, bias }: ProductName) => {
    matrix(weight);
    if (bias) all.add(bias.tensor);
  };
  const norm = (name: NormName | undefined) => {
    if (name) all.add(name.weight);
    if (name?.bias) all.add(name.bias);
  };
  matrix(names.embedding);
  matrix(names.positions);
  norm(names.finalNorm);
  if (!config.tiedHead) matrix(names.head);
  for (let index = 0; index < config.layers.length; index++) {
    const layer = names.layer(index);
    for (const each of [layer.query, layer.key, layer.value, layer.attentionOutput]) product(each);
    for (const each of [layer.queryNorm, layer.keyNorm, layer.attentionNorm, layer.feedForwardNorm]) norm(each);
    for (const each of [layer.attentionOutputNorm, layer.feedForwardOutputNorm]) norm(each);
    const { feedForward } = layer;
    if (feedForward.kind === 'experts') {
      matrix(feedForward.router);
      for (const { gate, up, down } of feedForward.experts) [gate, up, down].forEach(matrix);
    } else {
      if (feedForward.kind === 'gated') product(feedForward.gate);
      product(feedForward.up);
      product(feedForward.down);
    }
  }
  return all;
}
