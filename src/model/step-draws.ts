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

/** From hidden states to results in a staging buffer. */
export class StepDraws {
  readonly #parts: DrawParts;
  readonly #hiddenSize: number;

  constructor(parts: DrawParts, hiddenSize: number) {
    this.#parts = parts;
    this.#hiddenSize = hiddenSize;
  }

  /**
   * Final norm, head and draw of a step's rows, tile by tile. Masked rows come last: from the first tile with one on
   * nothing is drawn, but the logits of that tile are there.
   */
  encode(pass: GPUComputePassEncoder, step: EncodedStep): void {
    const { model } = this.#parts;
    model.finish(pass, step.logits.length);
    const waiting = this.#firstWaiting(step);
    for (let tile = 0; tile < waiting; tile++) {
      this.#head(pass, step, tile);
      this.#draw(pass, step, tile);
    }
    if (step.masked > 0) this.#head(pass, step, waiting);
  }

  /** Draws what `encode` left of a step, of which nothing else may have been encoded since. */
  encodeMasked(pass: GPUComputePassEncoder, step: EncodedStep): void {
    const waiting = this.#firstWaiting(step);
    for (let tile = waiting; tile < this.#tiles(step); tile++) {
      if (tile > waiting) this.#head(pass, step, tile);
      this.#draw(pass, step, tile);
    }
  }

  /** As `encode` without masks; after each tile's head a pass ends, and `captured` may copy its logits away. */
  encodeCaptured(encoder: GPUCommandEncoder, step: EncodedStep, captured: (tile: number, rows: number) => void): void {
    const begin = () => encoder.beginComputePass({ label: 'step with logits' });
    let pass = begin();
    this.#parts.model.finish(pass, step.logits.length);
    for (let tile = 0; tile < this.#tiles(step); tile++) {
      this.#head(pass, step, tile);
      pass.end();
      captured(tile, this.#rows(step, tile).length);
      pass = begin();
      this.#draw(pass, step, tile);
    }
    pass.end();
  }

  /** Copies the results of repetition `repetition`, and what few rows tell of themselves. */
  copyResults(encoder: GPUCommandEncoder, staging: GPUBuffer, step: EncodedStep, repetition = 0): void {
    const { model, sampler } = this.#parts;
    const { logits } = step;
    if (logits.length === 0) return;
    const bytes = logits.length * RESULT_WORDS * 4;
    encoder.copyBufferToBuffer(sampler.results, 0, staging, repetition * bytes, bytes);
    const rowBytes = this.#hiddenSize * 4;
    let to = stagingLayout(step, this.#hiddenSize).hiddenAt * 4;
    logits.forEach(({ hidden }, i) => {
      if (!hidden) return;
      encoder.copyBufferToBuffer(model.finished, i * model.hiddenStride * 4, staging, to, rowBytes);
      to += rowBytes;
    });
  }

  /** What some rows tell beside their results: it has its place for the whole step. */
  copyLists(encoder: GPUCommandEncoder, staging: GPUBuffer, step: EncodedStep): void {
    const { sampler } = this.#parts;
    const { topAt, idsAt } = stagingLayout(step, this.#hiddenSize);
    if (step.top > 0) encoder.copyBufferToBuffer(sampler.top, 0, staging, topAt * 4, step.top * 8);
    if (step.ids > 0) encoder.copyBufferToBuffer(sampler.idLogprobs, 0, staging, idsAt * 4, step.ids * 4);
  }

  #tiles({ logits }: EncodedStep): number {
    return Math.ceil(logits.length / this.#parts.model.tileRows);
  }

  #rows({ logits }: EncodedStep, tile: number): readonly HostEntry[] {
    const { tileRows } = this.#parts.model;
    return logits.slice(tile * tileRows, (tile + 1) * tileRows);
  }

  /** The first tile with a masked row. */
  #firstWaiting(step: EncodedStep): number {
    if (step.masked === 0) return this.#tiles(step);
    return Math.floor((step.logits.length - step.masked) / this.#parts.model.tileRows);
  }

  #head(pass: GPUComputePassEncoder, step: EncodedStep, tile: number): void {
    this.#parts.model.head(pass, tile, this.#rows(step, tile).length);
  }

  #draw(pass: GPUComputePassEncoder, step: EncodedStep, tile: number): void {
    const { sampler, adjust } = this.#parts;
    const rows = this.#rows(step, tile);
    adjust.encode(pass, tile, rows);
    sampler.encode(pass, tile, rows);
  }
}
