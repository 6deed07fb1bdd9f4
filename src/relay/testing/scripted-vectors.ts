import { create } from '@bufbuild/protobuf';
import { type Embed, type EmbedInput, type NodeEvent, NodeEventSchema } from '../../contract/gen/node_relay_pb.ts';

/** The vector of a scripted node: of length 1, and another for each input. */
export function vectorOf(ids: readonly number[], typeIds: readonly number[], size: number): Float32Array<ArrayBuffer> {
  let hash = 2166136261;
  const next = (value: number) => {
    hash = Math.imul(hash ^ value, 16777619) >>> 0;
    return hash / 2 ** 32 - 0.5;
  };
  for (const [at, id] of ids.entries()) next(id + 1000 * (typeIds[at] ?? 0));
  const values = Float32Array.from({ length: size }, (_, at) => next(at));
  const length = Math.hypot(...values);
  return values.map((value) => value / length);
}

/** What a scripted node tells of vectors: one each step, in the order they were asked for. */
export class ScriptedVectors {
  private readonly waiting: { readonly jobId: bigint; readonly input: EmbedInput }[] = [];
  private readonly size: number;
  private readonly made: typeof vectorOf;

  constructor(size: number, made = vectorOf) {
    this.made = made;
    this.size = size;
  }

  submit({ jobId, inputs }: Embed): void {
    for (const input of inputs) this.waiting.push({ jobId, input });
  }

  abort(jobId: bigint): void {
    const kept = this.waiting.filter((one) => one.jobId !== jobId);
    this.waiting.splice(0, this.waiting.length, ...kept);
  }

  step(): NodeEvent[] {
    const next = this.waiting.shift();
    if (!next) return [];
    const { inputIds, tokenTypeIds, index } = next.input;
    return [embeddedEvent(next.jobId, index, this.made(inputIds, tokenTypeIds, this.size))];
  }
}

export function embeddedEvent(jobId: bigint, index: number, vector: Float32Array<ArrayBuffer>): NodeEvent {
  const values = new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength);
  return create(NodeEventSchema, { jobId, index, event: { case: 'embedded', value: { values } } });
}
