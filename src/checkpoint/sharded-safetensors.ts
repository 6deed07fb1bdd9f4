import type { ByteSource } from './byte-source.ts';
import { type Checkpoint, CheckpointError, type TensorInfo } from './checkpoint.ts';
import { openSafetensors } from './safetensors.ts';

/** The name of the index of a checkpoint in several files. */
export const SAFETENSORS_INDEX = 'model.safetensors.index.json';

/**
 * Several safetensors files as one checkpoint, by their index: `weight_map` says which file has which tensor; tensors
 * that it doesn't name are no part of the model. `openShard` gives a file beside the index, undefined where there is
 * none. A tensor's offset is that in its own file. Rejects with CheckpointError naming file, tensor and reason.
 */
export async function openShardedSafetensors(
  indexText: string,
  indexName: string,
  openShard: (file: string) => ByteSource | undefined | Promise<ByteSource | undefined>,
): Promise<Checkpoint> {
  const weightMap = parseIndex(indexText, indexName);
  const shards = new Map<string, Checkpoint>();
  const homes = new Map<string, { readonly shard: Checkpoint; readonly tensor: TensorInfo }>();
  for (const [name, file] of weightMap) {
    const fail = (reason: string): never => {
      throw new CheckpointError(`${file}: ${reason} tensor ${JSON.stringify(name)}, which ${indexName} says is there`);
    };
    let shard = shards.get(file);
    if (shard === undefined) {
      const source = (await openShard(file)) ?? fail('the file is missing; it has');
      shard = await openSafetensors(source);
      shards.set(file, shard);
    }
    const tensor = shard.tensors.get(name) ?? fail('has no');
    homes.set(name, { shard, tensor });
  }
  return {
    name: indexName,
    tensors: new Map([...homes].map(([name, { tensor }]) => [name, tensor])),
    async read({ name }, from, length) {
      const home = homes.get(name);
      if (home === undefined) throw new CheckpointError(`${indexName}: there is no tensor ${JSON.stringify(name)}`);
      return home.shard.read(home.tensor, from, length);
    },
  };
}

/** The files that an index names, each once. Throws CheckpointError naming file and reason. */
export function shardNames(indexText: string, indexName: string): readonly string[] {
  return [...new Set(parseIndex(indexText, indexName).map(([, file]) => file))].sort();
}

function parseIndex(text: string, file: string): readonly (readonly [tensor: string, file: string])[] {
  const fail = (reason: string): never => {
    throw new CheckpointError(`${file}: ${reason}`);
  };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return fail(`not JSON (${(error as Error).message})`);
  }
  const { weight_map: weightMap } = (value ?? {}) as Record<string, unknown>;
  if (typeof weightMap !== 'object' || weightMap === null || Array.isArray(weightMap)) {
    return fail('weight_map is not an object');
  }
  const entries = Object.entries(weightMap as Record<string, unknown>);
  if (entries.length === 0) fail('weight_map names no tensor');
  return entries.map(([tensor, shard]) => {
    // A file of the same folder, and of no other.
    if (typeof shard !== 'string' || !/^[\w-][\w.-]*\.safetensors$/.test(shard)) {
      return fail(`tensor ${JSON.stringify(tensor)} is in ${JSON.stringify(shard)}, not a .safetensors file beside it`);
    }
    return [tensor, shard] as const;
  });
}
