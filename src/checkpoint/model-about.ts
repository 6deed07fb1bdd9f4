import { CheckpointError } from './checkpoint.ts';
import type { ModelTask } from './model-task.ts';

/** Tensors of a model that are alike. */
export interface TensorCount {
  /** As TensorInfo has it. */
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly count: number;
}

/** What a relay tells of its model beside the manifest, before anything of it is downloaded. The digest is not of it. */
export interface ModelAbout {
  /** URLs that a file's name goes behind: where nodes get the manifest's files before they ask the relay. */
  readonly bases: readonly string[];
  /** The model's config.json, or what a .gguf says in its place. */
  readonly config: Readonly<Record<string, unknown>>;
  /** What the model is for; absent: to generate. */
  readonly task?: ModelTask;
  /** Room for LoRA adapters beside it that nodes keep; undefined: none. */
  readonly adapters?: { readonly most: number; readonly maxRank: number };
  /** What its weights are, without what isn't loaded; undefined where it can't be told. */
  readonly tensors: readonly TensorCount[] | undefined;
}

/** Reads what a relay serves. Throws CheckpointError saying what is wrong. */
export function parseAbout(text: string, source: string): ModelAbout {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new CheckpointError(`${source}: not JSON`);
  }
  const { bases, config, tensors, adapters, task } = (value ?? {}) as Record<string, unknown>;
  if (!Array.isArray(bases) || !bases.every(isBase)) throw new CheckpointError(`${source}: bases are no URLs`);
  if (typeof config !== 'object' || config === null) throw new CheckpointError(`${source}: config is missing`);
  if (tensors !== undefined && !(Array.isArray(tensors) && tensors.every(isCount))) {
    throw new CheckpointError(`${source}: tensors are no counts`);
  }
  if (adapters !== undefined && !isRoom(adapters)) throw new CheckpointError(`${source}: adapters are no counts`);
  if (task !== undefined && !isTask(task)) throw new CheckpointError(`${source}: task is unknown`);
  return {
    bases,
    config: config as ModelAbout['config'],
    tensors,
    ...(adapters === undefined ? {} : { adapters }),
    ...(task === undefined ? {} : { task }),
  };
}

/** Whether a file's name can go behind it: of HTTP, a folder, and without user, query and fragment. */
export function isBase(text: unknown): text is string {
  if (typeof text !== 'string' || !URL.canParse(text)) return false;
  const url = new URL(text);
  return /^https?:$/.test(url.protocol) && url.href === `${url.origin}${url.pathname}` && text.endsWith('/');
}

function isTask(value: unknown): value is ModelTask {
  return value === 'generate' || value === 'embed' || value === 'classify';
}

function isRoom(value: unknown): value is NonNullable<ModelAbout['adapters']> {
  const { most, maxRank } = (value ?? {}) as Record<string, unknown>;
  const isSize = (size: unknown) => Number.isSafeInteger(size) && (size as number) >= 1 && (size as number) <= 4096;
  return isSize(most) && isSize(maxRank);
}

function isCount(value: unknown): value is TensorCount {
  const { dtype, shape, count } = (value ?? {}) as Record<string, unknown>;
  const isSize = (size: unknown) => Number.isSafeInteger(size) && (size as number) >= 0;
  return typeof dtype === 'string' && Array.isArray(shape) && shape.every(isSize) && isSize(count);
}
