import { Gpu } from '../../src/gpu/gpu.ts';
import { Kernel } from '../../src/gpu/kernel.ts';
import type { Roofline } from './report.ts';
import { kernelTimes } from './timing.ts';

const COPY_BYTES = 64 << 20;
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

const PEAK_THREADS = 16_384;
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
    const [from, to] = [await gpu.storage('bench from', COPY_BYTES), await gpu.storage('bench to', COPY_BYTES)];
    const copyGroup = await copy.bind([COPY_BYTES / 16], [from, to]);
    const { best: copyMs } = await kernelTimes(
      device,
      (pass) => copy.dispatchThreads(pass, copyGroup, COPY_BYTES / 16),
      samples,
    );

    const peak = await Kernel.compile(gpu, { name: 'bench peak', code: [PEAK_CODE], bindings: ['uniform', 'write'] });
    const peakGroup = await peak.bind([PEAK_LOOPS], [await gpu.storage('bench sums', PEAK_THREADS * 16)]);
    const { best: peakMs } = await kernelTimes(
      device,
      (pass) => peak.dispatchThreads(pass, peakGroup, PEAK_THREADS),
      samples,
    );
    const flops = PEAK_THREADS * PEAK_LOOPS * CHAINS.length * 4 * 2;
    return { copyGBs: (2 * COPY_BYTES) / copyMs / 1e6, gflops: flops / peakMs / 1e6 };
  } finally {
    gpu.destroy();
  }
}
