import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { Code } from '@connectrpc/connect';
import { CheckpointError } from '../../checkpoint/checkpoint.ts';
import { SAFETENSORS_INDEX } from '../../checkpoint/sharded-safetensors.ts';
import { ContractError, invalid } from '../../contract/contract-error.ts';
import { cacheDir } from '../model/cache-dir.ts';
import { differenceOf } from '../model/difference.ts';
import { ModelError } from '../model/model-error.ts';
import { hasher, openModel } from '../model/open-model.ts';
import { describeModel, type ServedModel } from '../served-model.ts';

const MOST_PATH = 4096;
/** Of weights by themselves, as a node looks for them. */
const WEIGHTS = 'model.safetensors';

export interface OpenWeightsOptions {
  /** See cacheDir. */
  readonly cache?: string | undefined;
  readonly onProgress: (line: string) => void;
  readonly signal: AbortSignal;
}

/**
 * Reads and hashes what is to take the place of `served`: a model folder, a .gguf file, or a .safetensors file, with which
 * all but the weights stays as it is. Its name stays too: requests go by it. Rejects with ContractError: INVALID_ARGUMENT
 * for what can't be read, FAILED_PRECONDITION naming in what it is another model; or as `signal` aborts.
 */
export async function openWeights(
  diskPath: string,
  served: ServedModel,
  options: OpenWeightsOptions,
): Promise<ServedModel> {
  if (diskPath === '' || diskPath.length > MOST_PATH)
    throw invalid('disk_path', `must be set, and not over ${MOST_PATH} characters.`);
  const path = resolve(diskPath);
  const next = await read(path, served, options).catch((error: unknown) => {
    options.signal.throwIfAborted();
    const { code, syscall, message } = error as NodeJS.ErrnoException;
    if (error instanceof ModelError || error instanceof CheckpointError || error instanceof RangeError)
      throw invalid('disk_path', `holds what is not served: ${message}.`);
    if (syscall !== undefined || code === 'ERR_INVALID_ARG_VALUE')
      throw invalid('disk_path', `can't be read: ${message}.`);
    throw error;
  });
  const difference = differenceOf(next, served);
  if (difference === undefined) return next;
  const why = `disk_path holds ${difference}: weights alone can change. Start the relay with another --model instead.`;
  throw new ContractError(Code.FailedPrecondition, why, 'disk_path');
}

async function read(path: string, served: ServedModel, options: OpenWeightsOptions): Promise<ServedModel> {
  const { name, folder, manifest } = served;
  const { quantisation } = manifest;
  const opening = { ...options, cache: options.cache ?? cacheDir() };
  if (!path.endsWith('.safetensors') || !(await stat(path)).isFile())
    return openModel(path, { ...opening, name, quantisation });
  // What lies in a folder of its own isn't the model's weights, but of what its vectors go through.
  const kept = Object.entries(served.paths).filter(
    ([file]) => !/^[^/]+\.(safetensors|gguf)$/.test(file) && file !== SAFETENSORS_INDEX,
  );
  const paths = { ...Object.fromEntries(kept), [WEIGHTS]: path };
  return describeModel({ name, folder, paths, quantisation }, hasher(opening));
}
