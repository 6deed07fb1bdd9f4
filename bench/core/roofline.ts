import { Gpu } from '../../src/gpu/gpu.ts';
import { Kernel } from '../../src/gpu/kernel.ts';
import type { Roofline } from './report.ts';
import { kernelTimes } from './timing.ts';

/** The larger one where the smaller takes no time: a GPU's caches hold it. */
const COPY_BYTES = [64 << 20, 512 << 20] as const;
const SHORT_MS = 1;
const COPY_CODE = `
struct Params { words: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> input: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> output: array<vec4<f32>>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let i = (group.y * groups.x + group.x) * 64u + lane;
  if (i < params.words) { output[i] = input[i]; }
}`;

/** More where more do more: few fill a software adapter, many a GPU. */
const PEAK_THREADS = [1 << 14, 1 << 17, 1 << 20] as const;
/** Of the next number of threads, to be worth a try of the one after. */
const LEAST_GAIN = 1.2;
const PEAK_LOOPS = 64;
/** Eight chains: enough that no multiply-add waits for the one before. */
const CHAINS = [0, 1, 2, 3, 4, 5, 6, 7];
const PEAK_CODE = `
struct Params { loops: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> output: array<vec4<f32>>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let x = vec4<f32>(f32(id.x) * 1e-6 + 0.5);
  ${CHAINS.map((i) => `var s${i} = x + ${i}.0;`).join('\n  ')}
  for (var i = 0u; i < params.loops; i++) {
    ${CHAINS.map((i) => `s${i} = fma(s${i}, x, x);`).join('\n    ')}
  }
  output[id.x] = ${CHAINS.map((i) => `s${i}`).join(' + ')};
}`;

/** Copy bandwidth and multiply-add peak of `device`: the best of a few samples, since whoever disturbs only slows. */
export async function measureRoofline(device: GPUDevice, samples = 5): Promise<Roofline> {
  const gpu = new Gpu(device);
  try {
    const copy = await Kernel.compile(gpu, {
      name: 'bench copy',
      code: [COPY_CODE],
      bindings: ['uniform', 'read', 'write'],
    });
    let copyGBs = 0;
    for (const bytes of COPY_BYTES) {
      if (bytes > gpu.bindingLimit) break;
      const buffers = [await gpu.storage('bench from', bytes), await gpu.storage('bench to', bytes)];
      const group = await copy.bind([bytes / 16], buffers);
      const { best } = await kernelTimes(device, (pass) => copy.dispatchThreads(pass, group, bytes / 16), samples);
      for (const buffer of buffers) gpu.buffers.free(buffer);
      // What a cache held says nothing: the last one counts.
      copyGBs = (2 * bytes) / best / 1e6;
      if (best > SHORT_MS) break;
    }

    const peak = await Kernel.compile(gpu, { name: 'bench peak', code: [PEAK_CODE], bindings: ['uniform', 'write'] });
    let gflops = 0;
    for (const threads of PEAK_THREADS) {
      const group = await peak.bind([PEAK_LOOPS], [await gpu.storage('bench sums', threads * 16)]);
      const { best } = await kernelTimes(device, (pass) => peak.dispatchThreads(pass, group, threads), samples);
      const before = gflops;
      gflops = Math.max(gflops, (threads * PEAK_LOOPS * CHAINS.length * 4 * 2) / best / 1e6);
      if (gflops < LEAST_GAIN * before) break;
    }
    return { copyGBs, gflops };
  } finally {
    gpu.destroy();
  }
}
