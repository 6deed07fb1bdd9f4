import type { Job } from './job.ts';
import type { NodePrefixes } from './node-prefixes.ts';
import type { Sample } from './sample.ts';

/** Jobs that ended at a node, whose late events it may still tell. */
const REMEMBERED_JOBS = 10_000;

/** A job at a node. */
export class RunningJob {
  readonly job: Job;
  /** Of the node. */
  private readonly nodeId: string;
  /** What the node was told. */
  readonly maxNewTokens: number;
  /** Number of the command that gave it to the node. */
  readonly commandSeq: bigint;
  private readonly givenAt = performance.now();
  /** A token of the job, or a logprob of its prompt, came from here. */
  told = false;
  /**
   * `performance.now()` of each sample's last token or credit. A sample that has made no token here isn't in it: it may
   * wait its turn inside the node.
   */
  private readonly progress = new Map<Sample, number>();

  constructor(job: Job, nodeId: string, maxNewTokens: number, commandSeq: bigint) {
    this.job = job;
    this.nodeId = nodeId;
    this.maxNewTokens = maxNewTokens;
    this.commandSeq = commandSeq;
  }

  /** The node is about to add to what its client is told of a sample. */
  makes({ makers, ids }: Sample): void {
    if (!makers.has(this.nodeId)) makers.set(this.nodeId, ids.length);
  }

  /** Tokens of a sample came. Returns the milliseconds since it could make them; undefined for its first here. */
  madeTokens(sample: Sample): number | undefined {
    this.told = true;
    const now = performance.now();
    const before = this.progress.get(sample);
    this.progress.set(sample, now);
    return before === undefined ? undefined : now - before;
  }

  /** A vector came: those that wait for theirs are under way. */
  madeVector(): void {
    this.told = true;
    const now = performance.now();
    for (const sample of this.job.unfinished) this.progress.set(sample, now);
  }

  /** A sample that was parked goes on: its clock starts anew. */
  gaveCredit(sample: Sample): void {
    if (this.progress.has(sample)) this.progress.set(sample, performance.now());
  }

  /** Whether the node had taken it on, where it has `acknowledged` commands up to that. */
  begun(acknowledged: bigint): boolean {
    return this.told || this.commandSeq <= acknowledged;
  }

  /** Whether it came before `since`, and nothing of it has been told. */
  untouched(since: number): boolean {
    return !this.told && this.givenAt <= since;
  }

  /** Whether one of its samples began here, has credit, and has made no token since. */
  stalled(since: number): boolean {
    return this.job.unfinished.some((sample) => {
      const at = this.progress.get(sample);
      return at !== undefined && at <= since && sample.ids.length < sample.credit;
    });
  }
}

/** The jobs at one node in the order they came, and the ids of those that ended there of late. */
export class RunningJobs {
  private readonly running = new Map<bigint, RunningJob>();
  private readonly recent = new Set<bigint>();
  private readonly prefixes: NodePrefixes;

  /** Their prompts are among `prefixes` while they run. */
  constructor(prefixes: NodePrefixes) {
    this.prefixes = prefixes;
  }

  get size(): number {
    return this.running.size;
  }

  /** Their samples that have not ended. */
  get samples(): number {
    let samples = 0;
    for (const { job } of this.running.values()) {
      for (const { finish } of job.samples) if (finish === undefined) samples++;
    }
    return samples;
  }

  /** Tokens of their prompts and outputs; samples share their prompt. */
  get heldTokens(): number {
    let tokens = 0;
    for (const { job } of this.running.values()) {
      tokens += job.request.inputIds.length;
      for (const { finish, ids } of job.samples) if (finish === undefined) tokens += ids.length;
    }
    return tokens;
  }

  get all(): readonly RunningJob[] {
    return [...this.running.values()];
  }

  add(running: RunningJob): void {
    this.running.set(running.job.id, running);
    this.prefixes.addPrompt(running.job.prefix);
  }

  find(id: bigint): RunningJob | undefined {
    return this.running.get(id);
  }

  /** Whether a job that isn't here any more was. */
  wasHere(id: bigint): boolean {
    return this.recent.has(id);
  }

  /** False where it wasn't here. */
  remove(job: Job): boolean {
    if (!this.running.delete(job.id)) return false;
    this.prefixes.dropPrompt(job.prefix);
    this.recent.add(job.id);
    if (this.recent.size > REMEMBERED_JOBS) {
      for (const oldest of this.recent) {
        this.recent.delete(oldest);
        break;
      }
    }
    return true;
  }

  /** Takes all out. */
  clear(): readonly RunningJob[] {
    const { all } = this;
    this.running.clear();
    for (const { job } of all) this.prefixes.dropPrompt(job.prefix);
    return all;
  }
}
