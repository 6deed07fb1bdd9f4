import type { MessageInitShape } from '@bufbuild/protobuf';
import { FAILURE_CODES, type FailureCode } from '../contract/failure-codes.ts';
import type { Embed, EmbedInput, NodeEventSchema } from '../contract/gen/node_relay_pb.ts';
import { EmbedAborted, EmbedFailure } from '../engine/embed-request.ts';
import type { Embedder } from '../engine/embedder.ts';
import type { Profile } from '../engine/profile.ts';
import type { EngineRequest } from '../engine/request.ts';
import type { CommandTarget } from './session-options.ts';

type NodeEventInit = MessageInitShape<typeof NodeEventSchema>;

/** What a session drives where the model makes vectors: an embedder, which generates nothing and caches nothing. */
export class EmbedTarget implements CommandTarget {
  readonly hasCacheNews = false;
  readonly #embedder: Pick<Embedder, 'embed' | 'abort'>;
  readonly #report: (events: readonly NodeEventInit[]) => void;
  /** Inputs whose vector is not there yet, by job. */
  readonly #open = new Map<bigint, Set<number>>();

  constructor(embedder: Pick<Embedder, 'embed' | 'abort'>, report: (events: readonly NodeEventInit[]) => void) {
    this.#embedder = embedder;
    this.#report = report;
  }

  get idle(): boolean {
    return this.#open.size === 0;
  }

  embed({ jobId, inputs }: Embed): void {
    if (inputs.length === 0) return;
    this.#open.set(jobId, new Set(inputs.map(({ index }) => index)));
    for (const input of inputs) void this.#make(jobId, input);
  }

  submit({ jobId, samples }: EngineRequest): void {
    const why = 'the model makes vectors, and generates nothing';
    this.#report(samples.map(({ index }) => failed(jobId, index, 'unimplemented', why)));
  }

  abort(jobId: bigint): boolean {
    const open = this.#open.get(jobId);
    if (!open) return false;
    this.#open.delete(jobId);
    for (const index of open) this.#embedder.abort(idOf(jobId, index));
    return true;
  }

  abortAll(): void {
    for (const jobId of [...this.#open.keys()]) this.abort(jobId);
  }

  grant(): void {}

  flushCache(): number {
    return 0;
  }

  beginCacheNews(): void {}

  takeCacheNews(): readonly [] {
    return [];
  }

  setPolicy(): void {}

  async profile(): Promise<Profile> {
    return { stages: [], problem: 'a model that makes vectors has no steps that are profiled' };
  }

  stopProfile(): void {}

  async #make(jobId: bigint, { index, inputIds, tokenTypeIds }: EmbedInput): Promise<void> {
    const typeIds = tokenTypeIds.length > 0 ? tokenTypeIds : undefined;
    const event = await this.#embedder
      .embed({ id: idOf(jobId, index), ids: inputIds, typeIds })
      .then(({ values }) => embedded(jobId, index, values))
      .catch((error: unknown) => {
        if (error instanceof EmbedAborted) return undefined;
        const { message } = error as Error;
        return failed(jobId, index, error instanceof EmbedFailure ? error.code : 'internal', message);
      });
    const open = this.#open.get(jobId);
    // What was aborted meanwhile, or is of a session that is over, is nobody's.
    if (!event || !open?.delete(index)) return;
    if (open.size === 0) this.#open.delete(jobId);
    this.#report([event]);
  }
}

/** What a node answers that has no vectors to give. */
export function refusedEmbed({ jobId, inputs }: Embed): readonly NodeEventInit[] {
  const why = 'the model generates text, and makes no vectors';
  return inputs.map(({ index }) => failed(jobId, index, 'unimplemented', why));
}

function idOf(jobId: bigint, index: number): string {
  return `${jobId}/${index}`;
}

/** Little-endian, as every platform with WebGPU has it. */
function embedded(jobId: bigint, index: number, { buffer, byteOffset, byteLength }: Float32Array<ArrayBuffer>) {
  const values = new Uint8Array(buffer, byteOffset, byteLength);
  return { jobId, index, event: { case: 'embedded' as const, value: { values } } };
}

function failed(jobId: bigint, index: number, code: FailureCode, message: string): NodeEventInit {
  return { jobId, index, event: { case: 'failed', value: { code: FAILURE_CODES[code], message } } };
}
