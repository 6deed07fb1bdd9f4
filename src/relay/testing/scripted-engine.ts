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
  /** Of the job's samples here. */
  readonly first: boolean;
  toldPrompt: boolean;
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
    for (const [at, { index, credit, emittedIds }] of job.samples.entries()) {
      const sequence = { job, index, output: [...emittedIds], credit, first: at === 0, toldPrompt: false };
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

  /** In two events, as a prompt of two chunks has it. */
  private tellPrompt(events: NodeEvent[], job: Generate, index: number, start: number): void {
    const ids = job.inputIds.slice(start);
    const half = Math.ceil(ids.length / 2);
    for (const [from, to] of [
      [0, half],
      [half, ids.length],
    ] as const) {
      const part = ids.slice(from, to);
      if (part.length === 0) continue;
      const known = (at: number) => start + from + at > 0;
      tell(events, job, index, {
        case: 'inputLogprobs',
        value: {
          position: start + from,
          logprobs: part.map((id, at) => (known(at) ? { value: -id / 512 } : {})),
          topLogprobs: job.topLogprobs > 0 ? part.map((id, at) => topAfter(id, known(at) ? job.topLogprobs : 0)) : [],
          idLogprobs:
            job.logprobIds.length > 0 ? part.map((id, at) => ({ values: known(at) ? byIdAt(id, job) : [] })) : [],
        },
      });
    }
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
    if (job.logprobStart !== undefined && sequence.first && !sequence.toldPrompt) {
      sequence.toldPrompt = true;
      this.tellPrompt(events, job, index, job.logprobStart);
    }
    if (tokenIds.length > 0) {
      const before = [...job.inputIds, ...output.slice(0, offset)];
      tell(events, job, index, {
        case: 'tokens',
        value: {
          offset,
          tokenIds,
          logprobs: job.outputLogprobs ? tokenIds.map((id) => -id / 512) : [],
          topLogprobs: job.topLogprobs > 0 ? tokenIds.map((id) => topAfter(id, job.topLogprobs)) : [],
          idLogprobs: job.logprobIds.length > 0 ? tokenIds.map((id) => ({ values: byIdAt(id, job) })) : [],
          hiddenStates: job.hiddenStates ? tokenIds.map((_, at) => ({ values: hiddenAt(before.length + at - 1) })) : [],
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
          ...(job.hiddenStates && output.length === 0
            ? { hiddenState: { values: hiddenAt(job.inputIds.length - 1) } }
            : {}),
          ...(atLength || stop === undefined ? {} : { matched: { case: 'matchedTokenId', value: stop } }),
        },
      });
    }
    return events;
  }
}

/** What a scripted node tells of the position at which `id` was drawn. */
export function topAfter(id: number, top: number) {
  return {
    tokenIds: Array.from({ length: top }, (_, k) => (id + k) % 512),
    logprobs: Array.from({ length: top }, (_, k) => -id / 512 - k),
  };
}

export function byIdAt(id: number, { logprobIds }: Pick<Generate, 'logprobIds'>): number[] {
  return logprobIds.map((asked) => -(id + asked) / 1024);
}

/** The hidden state of a position, [64]. */
export function hiddenAt(position: number): number[] {
  return Array.from({ length: 64 }, (_, at) => position + at / 64);
}

function tell(
  events: NodeEvent[],
  { jobId }: Generate,
  index: number,
  event: MessageInitShape<typeof NodeEventSchema>['event'],
): void {
  events.push(create(NodeEventSchema, { jobId, index, ...(event ? { event } : {}) }));
}
