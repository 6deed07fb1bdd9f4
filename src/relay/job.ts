import { randomBytes } from 'node:crypto';
import { Code } from '@connectrpc/connect';
import { ContractError } from '../contract/contract-error.ts';
import type { NormalisedRequest } from '../contract/normalised-request.ts';
import { blockHashes } from './block-hashes.ts';
import { type CreditWindow, creditWindow } from './credit.ts';
import { PromptLogprobs, type PromptPosition } from './prompt-logprobs.ts';
import { type Finish, type NewTokens, newSample, type Sample } from './sample.ts';
import { Signal } from './signal.ts';

/** Nodes that may be put out for what they told of one job: it may be the job that makes them err. */
const MOST_LIES = 3;
/** Stays that are remembered: the first ones, and the last. */
const MOST_STAYS = 16;

/** The next chunk of a stream: a sample's ids from `from` to `to`. */
export interface ReadyChunk {
  readonly sample: Sample;
  readonly from: number;
  readonly to: number;
}

/** Where a job runs. */
export interface JobHost {
  /** Tells the node that a sample may go on to `sample.credit`. */
  grant(job: Job, sample: Sample): void;
  /** The job needs the node no more. */
  release(job: Job): void;
}

/** A session with a node. */
export interface Refuser {
  readonly facts: { readonly nodeId: string };
  readonly token: string;
}

/** When a node was given the job, by `performance.now()`. */
interface Stay {
  readonly nodeId: string;
  readonly rank: number;
  readonly at: number;
}

/** One Generate request at the relay, from its arrival to the end of its stream. */
export class Job {
  readonly id: bigint;
  readonly request: NormalisedRequest;
  /** Key of all its draws. */
  readonly seed: bigint;
  readonly samples: readonly Sample[];
  /** Undefined where none are asked for. */
  readonly promptLogprobs: PromptLogprobs | undefined;
  /** `performance.now()` at arrival. */
  readonly arrivedAt = performance.now();
  /** Of the trace that it belongs to, for nodes. */
  traceparent: string | undefined;
  firstTokenAt: number | undefined;
  /** The node it runs at; undefined while it waits. */
  host: JobHost | undefined;
  /** Nodes that it ran at, by id. */
  readonly ranAt = new Set<string>();
  /** Where it ran, in order. */
  readonly stays: Stay[] = [];
  /** How often a node was given it. */
  given = 0;
  /** It ran at a node that was lost. */
  interrupted = false;
  /** How long it has waited with no node to take it, in milliseconds, since it came or was last interrupted. */
  nodelessMs = 0;
  /** Nodes that failed it, by id, or by session where another may do: they don't get it again. */
  readonly refusedBy = new Set<string>();
  /** What the last of those said. */
  lastRefusal: ContractError | undefined;
  /** Later ones that a node got first, while it waited. */
  overtaken = 0;
  /** Messages written to the client's stream. */
  messages = 0;
  /** 'complete' once every sample has its finish; an error ends the stream with it; 'left' is a client that is gone. */
  outcome: 'complete' | 'left' | ContractError | undefined;
  /** Something to write, or an outcome. */
  readonly changed = new Signal();
  /** Called once, when the outcome is known. */
  onEnd: ((job: Job) => void) | undefined;
  /** Called at the first token. */
  onFirstToken: ((job: Job) => void) | undefined;
  /** In the order they became ready. */
  private ready: ReadyChunk[] = [];
  private taken = 0;
  private lies = 0;
  private readonly window: CreditWindow;
  private hashes: readonly number[] | undefined;

  /** `begun`: its one sample, which goes on after ids. */
  constructor(id: bigint, request: NormalisedRequest, begun?: Pick<Sample, 'index'> & { ids: readonly number[] }) {
    this.id = id;
    this.request = request;
    this.seed = request.sampling.seed ?? randomBytes(8).readBigUInt64LE();
    this.window = creditWindow(request);
    const { logprobStart, inputIds, n } = request;
    this.promptLogprobs = logprobStart === undefined ? undefined : new PromptLogprobs(logprobStart, inputIds.length);
    this.samples = Array.from({ length: n }, (_, index) =>
      newSample(begun?.index ?? index, begun?.ids ?? [], this.window.tokens),
    );
  }

  /** What its prompt has in common with others, see blockHashes; embeddings, given or asked for, have nothing, nor has what an adapter makes. */
  get prefix(): readonly number[] {
    const { inputEmbeds, embedInputs, loraId, inputIds } = this.request;
    this.hashes ??= inputEmbeds || embedInputs || loraId !== undefined ? [] : blockHashes(inputIds);
    return this.hashes;
  }

  /** Tokens of one sequence's prompt; of several inputs that vectors are made of, of the longest. */
  get promptTokens(): number {
    const { embedInputs, inputIds } = this.request;
    return embedInputs ? Math.max(...embedInputs.map(({ ids }) => ids.length)) : inputIds.length;
  }

  /** Samples that a node still has to work on. */
  get unfinished(): readonly Sample[] {
    return this.samples.filter((sample) => sample.finish === undefined);
  }

  /** It ended with all that was asked for. */
  get whole(): boolean {
    return this.outcome === 'complete' && this.samples.every((sample) => sample.finish?.reason !== 'abort');
  }

  /** Of its prompt, found in a prefix cache. */
  get cachedTokens(): number | undefined {
    const told = this.samples.flatMap((sample) => sample.cachedTokens ?? []);
    return told.length > 0 ? Math.max(...told) : undefined;
  }

  /** `performance.now()` when the first node was given it. */
  get givenAt(): number | undefined {
    return this.stays[0]?.at;
  }

  /** A node is given it. */
  giveTo(host: JobHost & Pick<Refuser, 'facts'> & { readonly rank: number }): void {
    const { nodeId } = host.facts;
    const at = performance.now();
    this.host = host;
    this.ranAt.add(nodeId);
    this.given++;
    if (this.stays.length === MOST_STAYS) this.stays.pop();
    this.stays.push({ nodeId, rank: host.rank, at });
  }

  /** Takes in tokens that were checked before. */
  append(sample: Sample, { ids, details }: NewTokens): void {
    if (this.outcome !== undefined) return;
    if (this.firstTokenAt === undefined) {
      this.firstTokenAt = performance.now();
      this.onFirstToken?.(this);
    }
    const { stream, streamInterval } = this.request;
    for (let at = 0; at < ids.length; at++) {
      sample.ids.push(ids[at]!);
      if (details) sample.details.push(details[at]);
      if (stream && sample.ids.length % streamInterval === 0) this.makeChunk(sample);
    }
    if (!stream) {
      sample.sent = sample.ids.length;
      this.extendCredit(sample);
    }
    this.changed.notify();
  }

  /** Takes in logprobs of the prompt that were checked before. */
  appendPrompt(positions: readonly PromptPosition[]): void {
    if (this.outcome !== undefined) return;
    this.promptLogprobs?.add(positions);
    this.changed.notify();
  }

  finishSample(sample: Sample, finish: Finish): void {
    if (this.outcome !== undefined || sample.finish !== undefined) return;
    this.settle(sample, finish);
    if (this.samples.every((one) => one.finish !== undefined)) this.end('complete');
    else this.changed.notify();
  }

  /** Ends samples that have all their tokens, where a node was lost before it said so: no other could go on. */
  settleWhole(): void {
    const { maxNewTokens, stopTokenIds } = this.request.sampling;
    for (const sample of this.unfinished) {
      const last = sample.ids.at(-1);
      if (last === undefined) continue;
      if (sample.ids.length >= maxNewTokens) this.finishSample(sample, { reason: 'length' });
      else if (stopTokenIds.includes(last)) this.finishSample(sample, { reason: 'stop', matchedTokenId: last });
    }
  }

  /** The output so far fills what any node can hold: no other token could be made. */
  settleAt(room: number): void {
    for (const sample of this.unfinished) {
      if (sample.ids.length > 0 && sample.ids.length >= room) this.finishSample(sample, { reason: 'length' });
    }
  }

  /** Its node is no longer its host. `begun`: the node had taken it on, so that this interrupts it. */
  leaveHost(begun: boolean): void {
    this.host = undefined;
    this.promptLogprobs?.restart();
    if (!begun) return;
    this.interrupted = true;
    this.nodelessMs = 0;
  }

  /**
   * A node that is its host no more can't go on with it. Two that call it the client's mistake are believed; one that
   * lost its device may come back with another.
   */
  refuse({ facts, token }: Refuser, why: ContractError): void {
    const again = why.code === Code.InvalidArgument && this.lastRefusal?.code === why.code;
    this.refusedBy.add(why.code === Code.Unavailable ? token : facts.nodeId);
    this.lastRefusal = why;
    if (again) this.fail(why);
  }

  refusedAt({ facts, token }: Refuser): boolean {
    return this.refusedBy.has(facts.nodeId) || this.refusedBy.has(token);
  }

  /** A node told of it what can't be, and is put out. */
  liedAbout(): void {
    if (++this.lies < MOST_LIES) return;
    this.fail(new ContractError(Code.Internal, `${MOST_LIES} nodes answered this request with what can't be.`));
  }

  /** Ends what still runs with "abort" and the tokens so far. */
  abort(): void {
    if (this.outcome !== undefined) return;
    for (const sample of this.unfinished) this.settle(sample, { reason: 'abort' });
    this.end('complete');
  }

  fail(error: ContractError): void {
    this.end(error);
  }

  /** The client is gone: nobody reads the stream any more. */
  leave(): void {
    this.end('left');
    // A stream that already had its outcome, but not all of it written, has no reader now either.
    this.outcome = 'left';
    this.changed.notify();
  }

  /** What is next to be written; undefined where nothing waits, or waits for the prompt's logprobs to go with it. */
  nextChunk(): ReadyChunk | undefined {
    if (this.taken === this.ready.length) return undefined;
    // Those of an aborted job never come.
    if (this.promptLogprobs?.whole === false && this.outcome !== 'complete') return undefined;
    const chunk = this.ready[this.taken++];
    if (this.taken === this.ready.length || this.taken > 1024) {
      this.ready = this.ready.slice(this.taken);
      this.taken = 0;
    }
    return chunk;
  }

  /** A chunk was written: its node may make more tokens. */
  wrote({ sample, to }: ReadyChunk): void {
    if (!this.request.detailsInComplete) sample.details.fill(undefined, sample.sent, to);
    sample.sent = to;
    this.extendCredit(sample);
  }

  private makeChunk(sample: Sample): void {
    const from = sample.chunked;
    sample.chunked = sample.ids.length;
    this.ready.push({ sample, from, to: sample.chunked });
  }

  /** What is left over makes the last chunk. */
  private settle(sample: Sample, finish: Finish): void {
    sample.finish = finish;
    if (this.request.stream && sample.chunked < sample.ids.length) this.makeChunk(sample);
  }

  private extendCredit(sample: Sample): void {
    const credit = sample.sent + this.window.tokens;
    if (credit - sample.credit < this.window.portion) return;
    sample.credit = credit;
    if (sample.finish === undefined) this.host?.grant(this, sample);
  }

  private end(outcome: 'complete' | 'left' | ContractError): void {
    if (this.outcome !== undefined) return;
    this.outcome = outcome;
    const { host } = this;
    this.host = undefined;
    host?.release(this);
    this.onEnd?.(this);
    this.changed.notify();
  }
}
