import type { SearchedRow } from '../../gpu/sampler.ts';
import type { AdapterFiles } from '../../model/read-adapter.ts';
import type { AdapterTraits, Runner, RunnerLimits, SampledRow, StepBatch } from '../../model/runner.ts';

/** A runner that does what the one behind it does, but for what a test's own changes. */
export class WrappedRunner implements Runner {
  readonly limits: RunnerLimits;
  protected readonly inner: Runner;

  constructor(inner: Runner, limits: Partial<RunnerLimits> = {}) {
    this.inner = inner;
    this.limits = { ...inner.limits, ...limits };
  }

  get weightBytes(): number {
    return this.inner.weightBytes;
  }

  get kvBytes(): number {
    return this.inner.kvBytes;
  }

  get allocatedBytes(): number {
    return this.inner.allocatedBytes;
  }

  step(batch: StepBatch): Promise<SampledRow[]> {
    return this.inner.step(batch);
  }

  drawMasked(masks: readonly (Uint32Array | undefined)[]): void {
    this.inner.drawMasked(masks);
  }

  awaits(row: SearchedRow): Promise<void> | undefined {
    return this.inner.awaits?.(row);
  }

  loadAdapter(slot: number, files: AdapterFiles): Promise<AdapterTraits> {
    if (!this.inner.loadAdapter) throw new Error('the runner takes no adapters');
    return this.inner.loadAdapter(slot, files);
  }

  destroy(): void {
    this.inner.destroy();
  }
}
