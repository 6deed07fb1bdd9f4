import { requestDevice } from '../../src/gpu/request-device.ts';
import { describeAdapter } from './describe-adapter.ts';
import { expertsTable } from './experts-table.ts';
import { linearTable } from './linear-table.ts';
import { type BenchReport, type BenchTable, fixed, printTable } from './report.ts';
import { measureRoofline } from './roofline.ts';
import type { BenchHost } from './run-bench.ts';
import type { KernelsRequest } from './setting.ts';

/** Times kernels by themselves, on made-up numbers, with no model. */
export async function runKernels(request: KernelsRequest, host: BenchHost): Promise<BenchReport> {
  const gpu = await host.openGpu();
  const { adapter, device } = await requestDevice(gpu);
  try {
    const { name, software } = describeAdapter(adapter);
    const roofline = await measureRoofline(device, request.quick ? 3 : 5);
    host.log(
      `\nkernels on ${name}\nroofline: copy ${fixed(roofline.copyGBs)} GB/s (read + written), multiply-add ${fixed(roofline.gflops, 1)} GFLOP/s (f32)`,
    );
    const tables: BenchTable[] = [];
    for (const measure of [linearTable, expertsTable]) {
      const table = await measure(device, roofline, request);
      host.log(printTable(table));
      tables.push(table);
    }
    return { model: 'kernels', weights: 'each', adapter: name, software, roofline, tables };
  } finally {
    device.destroy();
  }
}
