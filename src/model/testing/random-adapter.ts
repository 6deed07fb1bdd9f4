import { bytesSource } from '../../checkpoint/byte-source.ts';
import type { ModelConfig } from '../../checkpoint/model-config.ts';
import { writeSafetensors } from '../../checkpoint/testing/write-safetensors.ts';
import { Random } from '../../gpu/testing/random.ts';
import { adapterSites, SITE_KINDS } from '../adapter-sites.ts';
import type { AdapterFiles } from '../read-adapter.ts';

export interface RandomAdapterShape {
  readonly rank?: number;
  /** Ends of the names of modules that it adapts; default: all. */
  readonly targets?: readonly string[];
  /** Standard deviation of what it adds to a product of numbers of 1. */
  readonly size?: number;
}

/** A PEFT adapter of random numbers for a model. */
export function randomAdapter(
  seed: number,
  config: ModelConfig,
  { rank = 4, targets, size = 0.5 }: RandomAdapterShape = {},
): AdapterFiles {
  const random = new Random(seed);
  const modules = new Map(
    adapterSites(config)
      .flatMap((sites) => SITE_KINDS.flatMap((kind) => sites[kind]?.modules ?? []))
      .map((one) => [one.module, one]),
  );
  const header: Record<string, unknown> = {};
  const parts: Float32Array[] = [];
  let at = 0;
  const add = (name: string, rows: number, columns: number, deviation: number) => {
    const values = random.normals(rows * columns, deviation);
    header[name] = { dtype: 'F32', shape: [rows, columns], data_offsets: [at, at + values.byteLength] };
    at += values.byteLength;
    parts.push(values);
  };
  for (const { module, inputs, outputs } of modules.values()) {
    if (targets && !targets.some((name) => module.endsWith(`.${name}`))) continue;
    add(`base_model.model.${module}.lora_A.weight`, rank, inputs, 1 / Math.sqrt(inputs));
    add(`base_model.model.${module}.lora_B.weight`, outputs, rank, size / Math.sqrt(rank));
  }
  const data = new Float32Array(at / 4);
  let written = 0;
  for (const part of parts) {
    data.set(part, written);
    written += part.length;
  }
  const names = targets ?? [...new Set([...modules.keys()].map((module) => module.split('.').at(-1)!))];
  return {
    config: JSON.stringify({ peft_type: 'LORA', r: rank, lora_alpha: rank, target_modules: names, use_rslora: false }),
    weights: bytesSource('adapter_model.safetensors', writeSafetensors(header, new Uint8Array(data.buffer))),
  };
}
