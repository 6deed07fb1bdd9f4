import { inject } from 'vitest';
import { requestDevice } from '../gpu/request-device.ts';

/** 'full': what the adapter offers; 'default-limits': default limits and no features. */
export type DeviceProfile = 'full' | 'default-limits';

let gpu: Promise<GPU> | undefined;
let device: Promise<GPUDevice> | undefined;

/** The profile this run of the tests is for. */
export function deviceProfile(): DeviceProfile {
  const profile: unknown = (inject as (key: string) => unknown)('deviceProfile');
  return profile === 'default-limits' ? 'default-limits' : 'full';
}

/** The browser's GPU object, or Dawn's under Node. */
export function testGpu(): Promise<GPU> {
  // Kept: Dawn's device dies with its GPU object.
  gpu ??= openGpu();
  return gpu;
}

/** The tests' device, of the profile that the run asks for; another one where it was lost. */
export function testDevice(): Promise<GPUDevice> {
  device ??= newTestDevice().then((made) => {
    void made.lost.then(() => {
      device = undefined;
    });
    return made;
  });
  return device;
}

/** A device of its own, for tests that lose or exhaust it. */
export async function newTestDevice(): Promise<GPUDevice> {
  const acquired = await requestDevice(await testGpu(), { defaultLimits: deviceProfile() === 'default-limits' });
  return acquired.device;
}

async function openGpu(): Promise<GPU> {
  const browser = (globalThis as { navigator?: { gpu?: GPU } }).navigator?.gpu;
  if (browser) return browser;
  // A name Vite can't follow keeps Node's WebGPU out of the browser's bundle.
  const name = 'webgpu';
  const dawn = (await import(/* @vite-ignore */ name)) as {
    create(options: string[]): GPU;
    globals: Record<string, unknown>;
  };
  Object.assign(globalThis, dawn.globals);
  return dawn.create([]);
}
