import type { StartGrammarWorker } from '../../src/engine/grammar/grammar-messages.ts';
import type { Random } from '../../src/gpu/testing/random.ts';
import type { MatrixFormat } from '../../src/gpu/weight-format.ts';
import type { GpuRunner } from '../../src/model/gpu-runner.ts';
import type { BenchModel, ModelChoice } from './bench-model.ts';
import type { ModelRequest } from './model-request.ts';
import type { Roofline, TableName } from './report.ts';
import type { Work } from './work.ts';

/** What to measure; plain data, so that it can be sent to a Web Worker. */
export interface BenchRequest {
  readonly model: ModelChoice;
  readonly tables: readonly TableName[];
  readonly quick: boolean;
  /** Longest context that the whole model is measured at; undefined: 512, or the model's own on a real GPU. */
  readonly context: number | undefined;
  readonly trace: TraceChoice;
  /** What of the sampling and grammar tables to measure; absent: all. */
  readonly only?: TableLines;
}

/** Some lines of a table. */
export interface TableLines {
  readonly vocabularies?: readonly number[] | undefined;
  readonly batches?: readonly number[] | undefined;
  /** A line is measured where its name has one of these in it. */
  readonly lines?: readonly string[] | undefined;
}

/** Which kernels to time by themselves; plain data too. */
export interface KernelsRequest {
  readonly formats: readonly MatrixFormat[];
  readonly quick: boolean;
}

/** A model that a relay, or what serves as one, has at `url`: how long until a node is ready. */
export interface ReadyRequest {
  readonly url: string;
  /** kept: the browser has the files, and which kernels to take; first: it has neither. */
  readonly start: 'kept' | 'first';
  /** Whether the first request is drawn, or greedy. */
  readonly sampled: boolean;
}

export type AnyRequest = BenchRequest | KernelsRequest | ReadyRequest | ModelRequest;

export interface TraceChoice {
  readonly name: string;
  /** Lines of JSON, in Mooncake's format. */
  readonly text: string;
  /** Tokens that one hash of the trace stands for here; undefined: as many as fit the context, 512 at most. */
  readonly block: number | undefined;
  /** How much faster than written. */
  readonly speed: number;
}

/** What each table's measurement gets. */
export interface Setting {
  readonly device: GPUDevice;
  readonly runner: GpuRunner;
  readonly model: BenchModel;
  readonly work: Work;
  readonly roofline: Roofline;
  readonly request: BenchRequest;
  readonly software: boolean;
  readonly random: Random;
  startGrammarWorker(): Promise<StartGrammarWorker>;
  /** What other processes had of this machine's cores so far; absent: not known here. */
  readonly othersMs?: (() => number) | undefined;
  /** All that there is now; absent: not to be had here. */
  readonly collectGarbage?: (() => void) | undefined;
}

/** Ids for a prompt that shares nothing with any other. */
export function randomPrompt({ random, model }: Setting, length: number): number[] {
  return Array.from({ length }, () => random.integer(3, model.llama.vocabSize - 1));
}
