import type { AdjustLogits } from '../gpu/adjust-logits.ts';
import { RESULT_WORDS, type Sampler } from '../gpu/sampler.ts';
import type { ForwardModel } from './forward-model.ts';
import type { HostEntry } from './logits-entries.ts';
import { stagingLayout } from './read-step.ts';
import type { EncodedStep } from './step-metadata.ts';

export interface DrawParts {
  readonly model: ForwardModel;
  readonly sampler: Sampler;
  readonly adjust: AdjustLogits;
}

/** Some of a step's logits rows: those of one submit. */
interface Draws {
  readonly entries: readonly HostEntry[];
  /** Where they lie in the staging buffer, in words. */
  readonly resultsAt: number;
  readonly hiddenAt: number;
}

/** From hidden states to results in a staging buffer. */
export class StepDraws {
  readonly #parts: DrawParts;
  readonly #hiddenSize: number;

  constructor(parts: DrawParts, hiddenSize: number) {
    this.#parts = parts;
    this.#hiddenSize = hiddenSize;
  }

  /** Draws the rows that the header counts and copies their results out; ends the pass. */
  encode(encoder: GPUCommandEncoder, pass: GPUComputePassEncoder, staging: GPUBuffer, draws: Draws): void {
    const { model, sampler } = this.#parts;
    const { entries, resultsAt } = draws;
    this.tiles(encoder, pass, entries);
    if (entries.length === 0) return;
    encoder.copyBufferToBuffer(sampler.results, 0, staging, resultsAt * 4, entries.length * RESULT_WORDS * 4);
    const rowBytes = this.#hiddenSize * 4;
    let to = draws.hiddenAt * 4;
    entries.forEach(({ hidden }, i) => {
      if (!hidden) return;
      encoder.copyBufferToBuffer(model.finished, i * model.hiddenStride * 4, staging, to, rowBytes);
      to += rowBytes;
    });
  }

  /** Final norm, head and draw of `entries`, tile by tile; ends the pass. `captured` may copy each tile's logits away. */
  tiles(
    encoder: GPUCommandEncoder,
    first: GPUComputePassEncoder,
    entries: readonly HostEntry[],
    captured?: (tile: number, rows: number) => void,
  ): void {
    const { model, sampler, adjust } = this.#parts;
    let pass = first;
    model.finish(pass, entries.length);
    for (let tile = 0; tile * model.tileRows < entries.length; tile++) {
      const rows = entries.slice(tile * model.tileRows, (tile + 1) * model.tileRows);
      model.head(pass, tile, rows.length);
      if (captured) {
        pass.end();
        captured(tile, rows.length);
        pass = encoder.beginComputePass({ label: 'step' });
      }
      adjust.encode(pass, tile, rows);
      sampler.encode(pass, tile, rows);
      adjust.count(pass, tile, rows);
    }
    pass.end();
  }

  /** What some rows tell beside their results: it has its place for the whole step. */
  copyLists(encoder: GPUCommandEncoder, staging: GPUBuffer, step: EncodedStep): void {
    const { sampler } = this.#parts;
    const { topAt, idsAt } = stagingLayout(step, this.#hiddenSize);
    if (step.top > 0) encoder.copyBufferToBuffer(sampler.top, 0, staging, topAt * 4, step.top * 8);
    if (step.ids > 0) encoder.copyBufferToBuffer(sampler.idLogprobs, 0, staging, idsAt * 4, step.ids * 4);
  }
}
