import { type Checkpoint, CheckpointError, type TensorInfo } from './checkpoint.ts';
import { decodeHalf } from './half.ts';
import { isNamed, type PeftConfig } from './peft-config.ts';
import { type TextPart, textTensorName } from './text-part.ts';

/** A matrix of the model that adapters may change. */
export interface AdaptableMatrix {
  /** As the model's own tensor is called, without `.weight`. */
  readonly module: string;
  readonly inputs: number;
  readonly outputs: number;
}

/** What an adapter adds to one matrix: B · A. */
export interface LowRankUpdate {
  readonly rank: number;
  /** [rank, inputs] */
  readonly a: Float32Array;
  /** [outputs, rank], the scaling in it. */
  readonly b: Float32Array;
}

/** Names of PEFT's tensors: those of its wrapper before the model's, A or B behind. */
const TENSOR_NAME = /^base_model\.model\.(.+)\.lora_([AB])\.weight$/;

/**
 * Reads what an adapter adds to which of `matrices`, by their modules. Throws CheckpointError naming the tensor, module
 * or setting: every tensor is used, each adapted module has both of its tensors, and these the shapes that model and config say. Of
 * a model of several kinds of input, whose `textPart` is served, what is added to its other parts is left.
 */
export async function readPeftAdapter(
  config: PeftConfig,
  checkpoint: Checkpoint,
  matrices: Iterable<AdaptableMatrix>,
  maxRank: number,
  textPart?: TextPart,
): Promise<ReadonlyMap<string, LowRankUpdate>> {
  const fail = (reason: string): never => {
    throw new CheckpointError(`${checkpoint.name}: ${reason}`);
  };
  const known = new Map([...matrices].map((matrix) => [matrix.module, matrix]));
  const inText = (module: string) => (textPart ? textTensorName(module, textPart) : module);
  const found = new Map<string, { stored: string; A?: TensorInfo; B?: TensorInfo }>();
  const ofOthers = new Set<string>();
  for (const tensor of checkpoint.tensors.values()) {
    const [, stored, half] = TENSOR_NAME.exec(tensor.name) ?? fail(`tensor ${tensor.name} is none of a LoRA adapter's`);
    const module = inText(stored!);
    if (module !== undefined && !known.has(module)) fail(`tensor ${tensor.name}: adapting ${stored} is not served`);
    if (config.adapts(stored!) === false) fail(`tensor ${tensor.name}: ${config.name} doesn't adapt ${stored}`);
    if (module === undefined) ofOthers.add(stored!);
    else found.set(module, { ...found.get(module), stored: stored!, [half!]: tensor });
  }
  for (const name of config.targets ?? []) {
    const own = inText(name);
    const met =
      (own !== undefined && [...known.keys()].some((module) => isNamed(module, own))) ||
      [...ofOthers].some((module) => isNamed(module, name));
    if (!met) throw new CheckpointError(`${config.name}: target_modules: adapting ${name} is not served`);
    if (own !== undefined && known.has(own) && !found.has(own))
      fail(`no tensors of ${own}, which ${config.name} adapts`);
  }
  for (const module of known.keys()) {
    if (config.adapts(module) && !found.has(module)) fail(`no tensors of ${module}, which ${config.name} adapts`);
  }
  if (found.size === 0) fail('no tensors');

  // Every shape is looked at before the first value is read.
  const plans = [...found].map(([module, { stored, A, B }]) => {
    const { inputs, outputs } = known.get(module)!;
    const rank = config.rank(stored);
    if (rank > maxRank) fail(`${module}: rank ${rank}, at most ${maxRank} is served`);
    const a = A ?? fail(`${module} has a lora_B and no lora_A`);
    const b = B ?? fail(`${module} has a lora_A and no lora_B`);
    checkShape(a, [rank, inputs], fail);
    checkShape(b, [outputs, rank], fail);
    return { module, stored, rank, a, b };
  });
  const updates = new Map<string, LowRankUpdate>();
  for (const { module, stored, rank, a, b } of plans) {
    const scaling = config.scaling(stored);
    const scaled = (await readFloats(checkpoint, b, fail)).map((value) => value * scaling);
    updates.set(module, { rank, a: await readFloats(checkpoint, a, fail), b: scaled });
  }
  return updates;
}

type Fail = (reason: string) => never;

function checkShape({ name, shape }: TensorInfo, expected: readonly number[], fail: Fail): void {
  if (shape.length !== 2 || shape.some((size, i) => size !== expected[i])) {
    fail(`tensor ${name} has shape [${shape.join(', ')}], expected [${expected.join(', ')}]`);
  }
}

async function readFloats(checkpoint: Checkpoint, tensor: TensorInfo, fail: Fail): Promise<Float32Array> {
  const decode =
    DECODERS[tensor.dtype] ?? fail(`tensor ${tensor.name} is ${tensor.dtype}, and F32, F16 and BF16 are served`);
  // A copy: a view of a file need not begin at a whole word.
  const values = decode((await checkpoint.read(tensor)).slice().buffer);
  if (!values.every((value) => Number.isFinite(value))) fail(`tensor ${tensor.name} holds a NaN or an infinity`);
  return values;
}

const DECODERS: Readonly<Record<string, (bytes: ArrayBuffer) => Float32Array>> = {
  F32: (bytes) => new Float32Array(bytes),
  F16: (bytes) => Float32Array.from(new Uint16Array(bytes), decodeHalf),
  BF16: (bytes) => new Float32Array(Uint32Array.from(new Uint16Array(bytes), (half) => half << 16).buffer),
};
