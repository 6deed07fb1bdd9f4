/** Features that some variants of kernels are for, and the profiler; asked for where the adapter has them. */
const FEATURES = [
  'subgroups',
  'shader-f16',
  'timestamp-query',
  // Not in WebGPU's types yet.
  'chromium-experimental-subgroup-matrix' as GPUFeatureName,
] as const satisfies readonly GPUFeatureName[];

/** Limits worth more than the default where the adapter has it: larger weights and KV pools in one binding. */
const RAISED_LIMITS = ['maxBufferSize', 'maxStorageBufferBindingSize'] as const;

const languages = new WeakMap<GPUDevice, ReadonlySet<string>>();

/** Features of WGSL that need no enabling, of a device that requestDevice gave; of others none are known. */
export function deviceLanguage(device: GPUDevice): ReadonlySet<string> {
  return languages.get(device) ?? new Set();
}

export interface AcquiredDevice {
  readonly adapter: GPUAdapter;
  readonly device: GPUDevice;
}

export interface DeviceRequest {
  /** Ask for the default limits only, whatever the adapter offers. */
  readonly defaultLimits?: boolean;
}

/** No adapter, or it gives no device: the message is for the user. */
export class DeviceUnavailableError extends Error {
  override readonly name = 'DeviceUnavailableError';
}

/**
 * Asks `gpu` (navigator.gpu, or Dawn's under Node) for the fast adapter and a device of it.
 * Every kernel works on the default limits without features; more is only asked for where the adapter has it.
 */
export async function requestDevice(gpu: GPU, request: DeviceRequest = {}): Promise<AcquiredDevice> {
  const adapter = await gpu.requestAdapter({ powerPreference: 'high-performance' });
  if (!adapter) throw new DeviceUnavailableError('WebGPU offers no adapter here');
  const requiredLimits: Record<string, number> = {};
  const requiredFeatures = request.defaultLimits ? [] : FEATURES.filter((feature) => adapter.features.has(feature));
  if (!request.defaultLimits) {
    for (const name of RAISED_LIMITS) requiredLimits[name] = adapter.limits[name];
  }
  try {
    const device = await adapter.requestDevice({ label: 'shoal', requiredLimits, requiredFeatures });
    if (!request.defaultLimits) languages.set(device, new Set(gpu.wgslLanguageFeatures ?? []));
    return { adapter, device };
  } catch (error) {
    throw new DeviceUnavailableError(`the adapter gives no device: ${(error as Error).message}`);
  }
}
