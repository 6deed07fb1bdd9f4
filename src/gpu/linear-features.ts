import type { FragmentShape } from './linear-variant.ts';
import { deviceLanguage } from './request-device.ts';

/** What of a device decides which variants of a product it can have, and which may win on it. */
export interface LinearFeatures {
  /** Features of the device. */
  has(feature: string): boolean;
  /** Whether dot4I8Packed is there. */
  readonly packedDot: boolean;
  /** Whether threads run on a CPU, which wants few workgroups, no barriers, and little to compile. */
  readonly software: boolean;
  /** Shapes of subgroup matrices, best first; none where subgroups have no one size. */
  readonly fragments: readonly FragmentShape[];
}

export function linearFeatures(device: GPUDevice): LinearFeatures {
  const info = device.adapterInfo;
  return {
    has: (feature) => device.features.has(feature as GPUFeatureName),
    packedDot: deviceLanguage(device).has('packed_4x8_integer_dot_product'),
    software: isSoftware(info),
    fragments: device.features.has('chromium-experimental-subgroup-matrix' as GPUFeatureName) ? fragments(info) : [],
  };
}

/** Whether an adapter is a CPU's. */
export function isSoftware(info: GPUAdapterInfo): boolean {
  return info.isFallbackAdapter || /swiftshader|llvmpipe|lavapipe/i.test(`${info.architecture} ${info.description}`);
}

/** Not in WebGPU's types yet. */
interface MatrixConfig {
  readonly componentType: string;
  readonly resultType: string;
  readonly M: number;
  readonly N: number;
  readonly K: number;
}

function fragments(info: GPUAdapterInfo): FragmentShape[] {
  const { subgroupMatrixConfigs: configs = [] } = info as { subgroupMatrixConfigs?: readonly MatrixConfig[] };
  const { subgroupMinSize: subgroup, subgroupMaxSize } = info;
  if (!subgroup || subgroup !== subgroupMaxSize) return [];
  const found = configs.flatMap(({ componentType, resultType, M: m, N: n, K: k }): FragmentShape[] => {
    const isFloat = (type: string) => type === 'f16' || type === 'f32';
    // Sums in halves would lose what the rest keeps.
    if (!isFloat(componentType) || resultType !== 'f32') return [];
    // What a tile of 64 rows and a unit of 32 columns can be cut into.
    if (64 % m !== 0 || 64 % n !== 0 || 32 % k !== 0) return [];
    return [{ component: componentType as 'f16' | 'f32', result: 'f32', m, n, k, subgroup }];
  });
  return found.sort((a, b) => Number(a.component === 'f32') - Number(b.component === 'f32') || b.m * b.n - a.m * a.n);
}
