import { bytesSource } from '../../checkpoint/byte-source.ts';
import type { Checkpoint } from '../../checkpoint/checkpoint.ts';
import { type ModelConfig, parseModelConfig } from '../../checkpoint/model-config.ts';
import { openShardedSafetensors, SAFETENSORS_INDEX } from '../../checkpoint/sharded-safetensors.ts';
import { writeSafetensors } from '../../checkpoint/testing/write-safetensors.ts';
import { encodeWeights } from '../../gpu/testing/matrices.ts';
import { Random } from '../../gpu/testing/random.ts';
import type { WeightFormat } from '../../gpu/weight-format.ts';
import type { DecoderNames, MatrixName, NormName, ProductName } from '../architecture.ts';
import { architectureOf } from '../architecture-of.ts';
import type { DecoderConfig } from '../decoder-config.ts';

export interface RandomFiles {
  readonly format: WeightFormat;
  /** Files that the tensors lie in, in turns, with an index. */
  readonly shards: number;
  /** Names without what they begin with, as files of a model without its head have them. */
  readonly bare?: boolean;
  /** The head is in the files too, though the model ties it. */
  readonly storedHead?: boolean;
}

/** A decoder of any family with random weights, as a released checkpoint would hold it. */
export async function randomDecoder(
  seed: number,
  raw: Readonly<Record<string, unknown>>,
  { format, shards, bare = false, storedHead = false }: RandomFiles,
): Promise<{ readonly config: ModelConfig; readonly checkpoint: Checkpoint }> {
  const config = parseModelConfig(JSON.stringify({ model_type: 'any', ...raw }), 'config.json');
  const architecture = architectureOf(config);
  const decoder = architecture.readConfig(config);
  const names = architecture.tensorNames(decoder);
  const shapes = tensorShapes(names, decoder);
  if (storedHead) shapes.set(names.head.tensor, [decoder.vocabSize, decoder.hiddenSize]);

  const random = new Random(seed);
  const files = Array.from({ length: shards }, () => ({ header: {} as Record<string, unknown>, data: [] as number[] }));
  const weightMap: Record<string, string> = {};
  let next = 0;
  for (const [name, shape] of shapes) {
    const values = random.normals(
      shape.reduce((product, size) => product * size, 1),
      shape.length === 1 ? 0.2 : 1.5 / Math.sqrt(Math.min(...shape)),
    );
    // Gains around 1, as norms that add 1 have them too.
    if (/norm|ln_/.test(name) && name.endsWith('weight') && decoder.norm.gainOffset === 0) {
      for (let i = 0; i < values.length; i++) values[i]! += 1;
    }
    const stored = bare && name.startsWith(architecture.prefix) ? name.slice(architecture.prefix.length) : name;
    const shard = next++ % shards;
    const { header, data } = files[shard]!;
    const from = data.length;
    for (const byte of encodeWeights(values, format)) data.push(byte);
    header[stored] = { dtype: format.toUpperCase(), shape, data_offsets: [from, data.length] };
    weightMap[stored] = `${shard}.safetensors`;
  }
  const sources = files.map(({ header, data }, shard) =>
    bytesSource(`${shard}.safetensors`, writeSafetensors(header, Uint8Array.from(data))),
  );
  const index = JSON.stringify({ weight_map: weightMap });
  return {
    config,
    checkpoint: await openShardedSafetensors(index, SAFETENSORS_INDEX, (file) => sources[Number.parseInt(file, 10)]),
  };
}

/** Shapes of all tensors of a decoder as its files have them. */
function tensorShapes(names: DecoderNames, config: DecoderConfig): Map<string, number[]> {
  const shapes = new Map<string, number[]>();
  const matrix = ({ tensor, stretch, transposed }: MatrixName, rows: number, columns: number) => {
    const shape = [stretch?.of ?? rows, columns];
    shapes.set(tensor, transposed ? shape.reverse() : shape);
  };
  const product = ({ weight, bias }: ProductName, rows: number, columns: number) => {
    matrix(weight, rows, columns);
    if (bias) shapes.set(bias.tensor, [bias.stretch?.of ?? rows]);
  };
  const norm = (name: NormName | undefined, size: number) => {
    if (name) shapes.set(name.weight, [size]);
    if (name?.bias) shapes.set(name.bias, [size]);
  };
  const { hiddenSize, vocabSize } = config;
  matrix(names.embedding, vocabSize, hiddenSize);
  if (names.positions) matrix(names.positions, config.learnedPositions!, hiddenSize);
  norm(names.finalNorm, hiddenSize);
  if (!config.tiedHead) matrix(names.head, vocabSize, hiddenSize);
  for (const [index, { attention, feedForward }] of config.layers.entries()) {
    const layer = names.layer(index);
    const [queries, keys] = [attention.heads * attention.headSize, attention.kvHeads * attention.headSize];
    product(layer.query, queries, hiddenSize);
    product(layer.key, keys, hiddenSize);
    product(layer.value, keys, hiddenSize);
    product(layer.attentionOutput, hiddenSize, queries);
    norm(layer.queryNorm, attention.qkNorm === 'row' ? queries : attention.headSize);
    norm(layer.keyNorm, attention.qkNorm === 'row' ? keys : attention.headSize);
    for (const each of [layer.attentionNorm, layer.feedForwardNorm]) norm(each, hiddenSize);
    for (const each of [layer.attentionOutputNorm, layer.feedForwardOutputNorm]) norm(each, hiddenSize);
    const own = layer.feedForward;
    const { size } = feedForward;
    if (own.kind === 'experts') {
      matrix(own.router, own.experts.length, hiddenSize);
      for (const { gate, up, down } of own.experts) {
        matrix(gate, size, hiddenSize);
        matrix(up, size, hiddenSize);
        matrix(down, hiddenSize, size);
      }
    } else {
      if (own.kind === 'gated') product(own.gate, size, hiddenSize);
      product(own.up, size, hiddenSize);
      product(own.down, hiddenSize, size);
    }
  }
  return shapes;
}
