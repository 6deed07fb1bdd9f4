import keysCode from '../../shaders/attention-keys.wgsl?raw';
import mergeCode from '../../shaders/attention-merge.wgsl?raw';
import ruleCode from '../../shaders/attention-merge-rule.wgsl?raw';
import partsCode from '../../shaders/attention-parts.wgsl?raw';
import splitCode from '../../shaders/attention-split.wgsl?raw';
import tilesCode from '../../shaders/attention-tiles.wgsl?raw';
import wholeCode from '../../shaders/attention-whole.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import tanhCode from '../../shaders/tanh.wgsl?raw';
import type { AttentionShape } from './attention.ts';
import { type AttentionChoice, TILE_THREADS, tileLines } from './attention-choice.ts';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { KV_FORMATS } from './kv-format.ts';
import { expandTemplate } from './template.ts';

/** A decode row has few parts: half the usual workgroup gives twice the cores something to do. */
const PARTS_THREADS = 32;

/** A kernel of whole rows, or of parts of rows. All bind the same: step, query, kv and where they write. */
export interface AttentionKernel {
  readonly kernel: Kernel;
  /** `items`: whole rows, or parts. */
  encode(pass: GPUComputePassEncoder, group: GPUBindGroup, items: number): void;
}

/** Throws RangeError where tiles are asked for of heads that are too large for them. */
export async function compileAttention(
  gpu: Gpu,
  shape: AttentionShape,
  of: keyof AttentionChoice,
  { [of]: form }: AttentionChoice,
): Promise<AttentionKernel> {
  return form === 'tiles' ? compileTiles(gpu, shape, of) : compileThreads(gpu, shape, of);
}

function kernelName({ kvFormat, cap }: AttentionShape, of: keyof AttentionChoice): string {
  return `attention-${of} ${kvFormat}${cap === undefined ? '' : ' capped'}`;
}

function sharedCode({ kvFormat, cap }: AttentionShape): string[] {
  const capped = cap !== undefined;
  const keys = expandTemplate(keysCode, { CAPPED: capped ? 1 : 0, PLAIN: capped ? 0 : 1 });
  return [stepCode, tanhCode, keys, KV_FORMATS[kvFormat].code];
}

async function compileThreads(gpu: Gpu, shape: AttentionShape, of: keyof AttentionChoice): Promise<AttentionKernel> {
  const constants = { HEAD_WORDS: shape.headSize / 4 };
  const shared = [...sharedCode(shape), expandTemplate(splitCode, constants)];
  const kernel = await Kernel.compile(gpu, {
    name: kernelName(shape, of),
    code:
      of === 'whole'
        ? [...shared, ruleCode, expandTemplate(wholeCode, constants)]
        : [...shared, expandTemplate(partsCode, constants)],
    constants,
    bindings: ['uniform', 'read', 'read', 'read', 'write'],
    ...(of === 'whole' ? {} : { threads: PARTS_THREADS }),
  });
  return { kernel, encode: (pass, group, items) => kernel.dispatchThreads(pass, group, items * shape.heads) };
}

async function compileTiles(gpu: Gpu, shape: AttentionShape, of: keyof AttentionChoice): Promise<AttentionKernel> {
  const { headSize, heads, kvHeads } = shape;
  const lines = tileLines(shape, of);
  if (lines === undefined) throw new RangeError(`heads of ${headSize} numbers are too large for tiles`);
  const words = headSize / 4;
  const counts = {
    ...{ WHOLE: of === 'whole' ? 1 : 0, PARTS: of === 'parts' ? 1 : 0 },
    KEYS: (16 * lines) / TILE_THREADS,
    PAIRS: Math.ceil((lines * words) / TILE_THREADS),
  };
  const kernel = await Kernel.compile(gpu, {
    name: `${kernelName(shape, of)} tiles`,
    code: [...sharedCode(shape), ruleCode, expandTemplate(tilesCode, counts)],
    constants: { HEAD_WORDS: words, LINES: lines, THREADS: TILE_THREADS },
    bindings: ['uniform', 'read', 'read', 'read', 'write'],
    threads: TILE_THREADS,
  });
  const ofOneKvHead = heads / kvHeads;
  const workgroups =
    of === 'whole'
      ? (rows: number) => kvHeads * Math.ceil((rows * ofOneKvHead) / lines)
      : (parts: number) => parts * kvHeads * Math.ceil(ofOneKvHead / lines);
  return { kernel, encode: (pass, group, items) => kernel.dispatch(pass, group, workgroups(items)) };
}

/** Adds the parts of a row up. */
export function compileMerge(gpu: Gpu): Promise<Kernel> {
  return Kernel.compile(gpu, {
    name: 'attention-merge',
    code: [stepCode, ruleCode, mergeCode],
    bindings: ['uniform', 'read', 'read', 'write'],
  });
}
