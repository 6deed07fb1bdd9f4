import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  Finished_Reason,
  type Generate,
  type Grant,
  type NodeEvent,
  NodeEventSchema,
} from '../../contract/gen/node_relay_pb.ts';

export interface EngineScript {
  /** The next id, from all ids so far, prompt included: a wrong resume shows in every id after it. */
  readonly next?: (ids: readonly number[], index: number) => number;
  /** Tokens of a sample in one report. */
  readonly tokensPerStep?: number;
}

/** A hash of all ids so far, in [5, 505): clear of the stop ids of the small test model. */
export function nextOf(ids: readonly number[], index: number): number {
  let hash = 2166136261 ^ index;
  for (const id of ids) hash = Math.imul(hash ^ id, 16777619) >>> 0;
  return 5 + (hash % 500);
}

/** The output that `nextOf` gives for a prompt. */
export function outputOf(prompt: readonly number[], count: number, index = 0): number[] {
  const ids = [...prompt];
  for (let made = 0; made < count; made++) ids.push(nextOf(ids, index));
  return ids.slice(prompt.length);
}

interface Sequence {
  readonly job: Generate;
  readonly index: number;
  readonly output: number[];
  credit: number;
}

/** Makes the tokens of a scripted node, by a function instead of a model. */
export class ScriptedEngine {
  private readonly script: EngineScript;
  private readonly sequences = new Map<string, Sequence>();
  /** Those that are not done. */
  private readonly active = new Set<Sequence>();

  constructor(script: EngineScript) {
    this.script = script;
  }

  submit(job: Generate): void {
    for (const { index, credit, emittedIds } of job.samples) {
      const sequence = { job, index, output: [...emittedIds], credit };
      this.sequences.set(`${job.jobId}/${index}`, sequence);
      this.active.add(sequence);
    }
  }

  grant({ jobId, index, credit }: Grant): void {
    const found = this.sequences.get(`${jobId}/${index}`);
    if (found) found.credit = Math.max(found.credit, credit);
  }

  abort(jobId: bigint): void {
    for (const one of this.active) if (one.job.jobId === jobId) this.active.delete(one);
  }

  outputLength(jobId: bigint, index: number): number {
    return this.sequences.get(`${jobId}/${index}`)?.output.length ?? 0;
  }

  /** One step of every sequence that isn't parked; what they have to tell. */
  step(): NodeEvent[] {
    return [...this.active].flatMap((one) => this.stepOne(one));
  }

  private stepOne(sequence: Sequence): NodeEvent[] {
    const events: NodeEvent[] = [];
    const { job, index, output } = sequence;
    const sampling = job.sampling;
    if (!sampling) throw new Error('a job without sampling');
    const offset = output.length;
    const room = Math.min(this.script.tokensPerStep ?? 1, sequence.credit - offset, sampling.maxNewTokens - offset);
    if (room <= 0 && offset < sampling.maxNewTokens) return [];
    let stop: number | undefined;
    while (output.length < offset + room && stop === undefined) {
      const id = (this.script.next ?? nextOf)([...job.inputIds, ...output], index);
      output.push(id);
      if (sampling.stopTokenIds.includes(id)) stop = id;
    }
    const tokenIds = output.slice(offset);
    if (tokenIds.length > 0) {
      const top = job.topLogprobs;
      tell(events, job, index, {
        case: 'tokens',
        value: {
          offset,
          tokenIds,
          logprobs: job.outputLogprobs ? tokenIds.map((id) => -id / 512) : [],
          topLogprobs:
            top > 0
              ? tokenIds.map((id) => ({
                  tokenIds: Array.from({ length: top }, (_, k) => (id + k) % 512),
                  logprobs: Array.from({ length: top }, (_, k) => -id / 512 - k),
                }))
              : [],
        },
      });
    }
    if (output.length >= sampling.maxNewTokens || stop !== undefined) {
      this.active.delete(sequence);
      const atLength = output.length >= sampling.maxNewTokens;
      tell(events, job, index, {
        case: 'finished',
        value: {
          reason: atLength ? Finished_Reason.LENGTH : Finished_Reason.STOP,
          completionTokens: output.length,
          ...(atLength || stop === undefined ? {} : { matched: { case: 'matchedTokenId', value: stop } }),
        },
      });
    }
    return events;
  }
}

function tell(
  events: NodeEvent[],
  { jobId }: Generate,
  index: number,
  event: MessageInitShape<typeof NodeEventSchema>['event'],
): void {
  events.push(create(NodeEventSchema, { jobId, index, ...(event ? { event } : {}) }));
}
