import { expect, test } from 'vitest';
import { Gpu } from './gpu.ts';
import { defaultChoice } from './linear-choice.ts';
import { LinearKernel } from './linear-kernel.ts';
import type { LinearForm, LinearVariant } from './linear-variant.ts';
import { QUANT_FORMATS } from './quant-format.ts';
import { isQuantFormat, type MatrixFormat } from './weight-format.ts';

const FORMATS: readonly MatrixFormat[] = ['f32', 'f16', 'bf16', ...QUANT_FORMATS];
const FORMS: readonly LinearForm[] = [
  { finish: 'store', normed: false },
  { finish: 'store', normed: true },
  { finish: 'add', normed: false },
  { finish: 'emit', normed: false },
  { finish: 'gate', normed: true },
  { finish: 'rotate', normed: true },
];

/** What is chosen with subgroups and without, and splits of K with threads of their own. */
function variants(format: MatrixFormat, form: LinearForm): readonly LinearVariant[] {
  const chosen = [true, false].flatMap((subgroups) => {
    const { matvec, matmul } = defaultChoice({ tiles: 8, columns: 64, format }, form, subgroups);
    return [...matvec, matmul];
  });
  const rows = form.finish === 'emit' ? 8 : 2;
  const split: LinearVariant = {
    path: 'plain',
    rows,
    columns: 1,
    threads: 32,
    columnThreads: 1,
    splitThreads: 8,
    chains: 4,
  };
  return [...chosen, split, ...(isQuantFormat(format) ? [{ ...split, path: 'quads' as const }] : [])];
}

// An optional dependency.
const webgpu = await import('webgpu').catch(() => undefined);

// Dawn's null adapter compiles WGSL and runs nothing: it has every feature, wherever this runs.
test.skipIf(!webgpu)(
  'every variant of a product compiles with subgroups, and within the default limits',
  async () => {
    Object.assign(globalThis, webgpu!.globals);
    const dawn = webgpu!.create(['backend=null', 'enable-dawn-features=allow_unsafe_apis']);
    const adapter = await dawn.requestAdapter();
    const device = await adapter!.requestDevice({ requiredFeatures: ['subgroups'] });
    const gpu = new Gpu(device);
    let compiled = 0;
    for (const format of FORMATS) {
      for (const form of FORMS) {
        for (const variant of variants(format, form)) {
          await LinearKernel.compile(gpu, format, variant, form);
          compiled++;
        }
      }
    }
    expect(compiled).toBeGreaterThan(1_000);
    gpu.destroy();
    device.destroy();
  },
  120_000,
);
