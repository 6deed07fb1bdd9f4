import type { Precision } from './kernel-choices.ts';
import { type KernelNeeds, productKey } from './kernel-needs.ts';

/** Limits that decide what a kernel can do. */
const LIMITS = [
  'maxComputeInvocationsPerWorkgroup',
  'maxComputeWorkgroupStorageSize',
  'maxStorageBuffersPerShaderStage',
] as const satisfies readonly (keyof GPUSupportedLimits)[];

/** What of a device a choice depends on. */
export interface TunedDevice {
  readonly adapterInfo: GPUAdapterInfo;
  readonly features: ReadonlySet<string>;
  readonly limits: GPUSupportedLimits;
}

export interface TunerKey {
  /** Where the record lies: it is replaced when what else the key says changes. */
  readonly slot: string;
  /** Everything that choices and results of the self-test depend on. */
  readonly key: string;
}

/** Of an adapter and its driver, features and limits, `version` of the shaders, precision, and a model's shapes. */
export function tunerKey(device: TunedDevice, needs: KernelNeeds, precision: Precision, version: string): TunerKey {
  // Some implementations tell a driver.
  const info = device.adapterInfo as GPUAdapterInfo & { readonly driver?: string };
  const { attention, embeddings, products, vocabulary, rows, experts } = needs;
  const slot = JSON.stringify({
    adapter: [info.vendor, info.architecture, info.device, info.description],
    precision,
    products: products.map(({ part, form, uses }) => `${productKey(part, form)} ${uses}`).sort(),
    others: [
      attention,
      embeddings.map(({ format, of }) => `${of} ${format}`).sort(),
      vocabulary,
      [...rows].sort(),
      experts,
    ],
  });
  const key = JSON.stringify({
    slot,
    driver: info.driver ?? '',
    subgroups: [info.subgroupMinSize, info.subgroupMaxSize],
    features: [...device.features].sort(),
    limits: LIMITS.map((name) => device.limits[name]),
    version,
  });
  return { slot, key };
}
