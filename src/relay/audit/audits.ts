import type { Logger } from 'pino';
import { hasRoom } from '../choose-node.ts';
import { fitsAt } from '../generate-command.ts';
import { Job } from '../job.ts';
import type { NodeLink } from '../node-link.ts';
import { type AuditCase, type Party, partiesOf } from './audit-case.ts';
import type { AuditCounts } from './audit-counts.ts';
import { Canaries } from './canaries.ts';
import { chooseAuditor } from './choose-auditor.ts';
import type { Judgement, MadeSample } from './judge.ts';
import { type FlaggedSample, flaggedSample, MadeSamples } from './made-samples.ts';
import { MOST_AUDITED_TOKENS } from './rescoring.ts';
import { rescored, type Scoring } from './scoring.ts';
import { scoringOf, tokensOf } from './scoring-of.ts';
import { settle } from './settle.ts';
import { type NodeAudits, Standings, shareOf } from './standing.ts';

/** Audits under way at a time; more are not begun. */
const MOST_RUNNING = 4;
/** Samples that wait for a third node; of more, the oldest are dropped. */
const MOST_DISPUTED = 16;
/** Canaries of a newcomer, for each of its samples that is audited. */
const CANARY_SHARE = 0.25;
/** How long one audit may take. */
const AUDIT_MS = 60_000;
/** How long a dispute waits for a third node. */
const DISPUTE_MS = 600_000;

export interface AuditParts {
  /** Part of the samples that is audited; 0 is none. */
  readonly share: () => number;
  readonly vocabSize: number;
  /** What texts of the model begin with; without it there are no canaries. */
  readonly bosTokenId: number | undefined;
  readonly links: () => readonly NodeLink[];
  /** Requests that run or wait. */
  readonly jobs: () => Iterable<Job>;
  /** Whether requests wait for room. */
  readonly busy: () => boolean;
  readonly newJobId: () => bigint;
  /** A node lied: by id. */
  readonly putOut: (nodeId: string) => void;
  readonly counts: AuditCounts;
  readonly log: Logger;
  /** In [0, 1). */
  readonly random: () => number;
}

/**
 * Has some finished samples scored by another node, and redraws them from what it tells: the relay knows seeds and the
 * rule of draws. Works beside the requests, never before them: what finds no room is dropped, and what is under way leaves
 * its node once a request waits.
 */
export class Audits {
  private readonly parts: AuditParts;
  private readonly standings = new Standings();
  private readonly made = new MadeSamples();
  private readonly canaries: Canaries | undefined;
  private readonly running = new Set<Job>();
  /** Failed, and without the scores of a third node. */
  private disputes: AuditCase[] = [];
  private closed = false;

  constructor(parts: AuditParts) {
    this.parts = parts;
    const { bosTokenId, vocabSize, random } = parts;
    this.canaries = bosTokenId === undefined ? undefined : new Canaries(bosTokenId, vocabSize, random);
  }

  /** Takes note of a request that is over, and audits some of its samples. */
  jobEnded(job: Job): void {
    if (this.closed) return;
    this.made.jobEnded(job);
    // Of an adapter: its logits are not the model's own.
    if (this.parts.share() === 0 || job.request.loraId !== undefined || job.outcome !== 'complete') return;
    for (const sample of job.samples) {
      const [nodeId, ...others] = sample.makers.keys();
      // What several nodes made, none has to answer for; of what is flagged, it is known.
      if (nodeId === undefined || others.length > 0 || sample.flagged) continue;
      if (sample.ids.length === 0 && !sample.vector) continue;
      const share = shareOf(this.parts.share(), this.standings.isWatched(nodeId));
      if (this.parts.random() >= share) continue;
      if (tokensOf(job, sample) > MOST_AUDITED_TOKENS) {
        this.parts.counts.audited('unfit');
        continue;
      }
      const { vocabSize, random } = this.parts;
      const scoring = scoringOf(job, sample, vocabSize, random);
      this.begin(newCase(this.party(nodeId), scoring, flaggedSample(job, sample), undefined));
    }
    const [nodeId, ...others] = job.ranAt;
    // Canaries are texts.
    if (nodeId !== undefined && others.length === 0 && !job.request.embedInputs) this.probe(nodeId);
  }

  /** Requests wait for room: audits make it. */
  giveWay(): void {
    for (const job of [...this.running]) job.leave();
  }

  /** Those of `jobs`, which lost their node, that are no audits; audits don't go on elsewhere. */
  withoutAudits(jobs: readonly Job[]): readonly Job[] {
    return jobs.filter((job) => {
      const audit = this.running.has(job);
      if (audit) job.leave();
      return !audit;
    });
  }

  /** Room or nodes came: disputes may be settled now. */
  pump(): void {
    const waiting = this.disputes.splice(0);
    for (const one of waiting) this.begin(one);
  }

  close(): void {
    this.closed = true;
    this.forget();
  }

  /** The weights are others from now on: what was made of those before can't be audited, and is no reference. */
  forget(): void {
    this.canaries?.forget();
    this.giveWay();
    // Those that gave way too.
    this.disputes = [];
  }

  /** What was found of a node, by its id. */
  of(nodeId: string): NodeAudits {
    return this.standings.of(nodeId);
  }

  /** A node as it tells of itself; one that left since it ended a request had any precision. */
  private party(nodeId: string): Party {
    const link = this.parts.links().find(({ facts }) => facts.nodeId === nodeId);
    return { nodeId, precision: link?.facts.precision ?? 'fast' };
  }

  private begin(one: AuditCase): void {
    const { parts } = this;
    if (this.closed) return;
    if (performance.now() >= one.until) {
      if (one.disputed) this.giveUp(one, one.disputed);
      return;
    }
    const free = this.running.size < MOST_RUNNING && !parts.busy();
    const job = one.scoring.newJob(parts.newJobId());
    const link = free
      ? chooseAuditor(parts.links(), job, partiesOf(one), one.disputed && one.maker.precision, parts.random)
      : undefined;
    if (!link) {
      this.postpone(one);
      return;
    }
    const { nodeId, precision } = link.facts;
    this.run(job, link, () => this.take(one, { nodeId, precision }, job));
  }

  /** Gives a job of the relay's own to a node; `ended` is called once, in whatever way it ends. */
  private run(job: Job, link: NodeLink, ended: () => void): void {
    this.running.add(job);
    const timer = setTimeout(() => job.leave(), AUDIT_MS);
    job.onEnd = () => {
      clearTimeout(timer);
      this.running.delete(job);
      ended();
    };
    link.run(job);
  }

  /** Asks a newcomer, now and then, for what is known, or will be. */
  private probe(nodeId: string): void {
    const { share, random, busy, links, newJobId } = this.parts;
    if (!this.canaries || !this.standings.isWatched(nodeId) || random() >= CANARY_SHARE * shareOf(share(), true))
      return;
    const link = links().find(({ facts, serving }) => serving && facts.nodeId === nodeId);
    if (!link || busy() || this.running.size >= MOST_RUNNING) return;
    const { request, expected } = this.canaries.next();
    const job = new Job(newJobId(), request);
    const room = hasRoom({ runningSamples: link.runningSamples, maxRunning: link.facts.maxRunning }, 2);
    if (room && fitsAt(job, link.facts)) this.run(job, link, () => this.takeCanary(nodeId, job, expected));
  }

  private takeCanary(nodeId: string, job: Job, expected: readonly number[] | undefined): void {
    const output = job.samples[0]?.ids ?? [];
    if (this.closed || job.outcome !== 'complete' || output.length === 0) return;
    const known = expected !== undefined && String(output) === String(expected);
    this.parts.counts.canary(known ? 'known' : expected ? 'other' : 'new');
    if (known) {
      this.standings.passed(nodeId);
      return;
    }
    // Another precision may give another text: an audit tells.
    const { inputIds: prompt, sampling } = job.request;
    const made = { prompt, output: [...output], sampling, seed: job.seed, index: 0 };
    const sample = { job: String(job.id), request: '', index: 0 };
    const scoring = rescored(made, this.parts.vocabSize);
    this.begin(newCase(this.party(nodeId), scoring, sample, expected ? undefined : made));
  }

  /** A dispute waits for a node; another audit is dropped. */
  private postpone(one: AuditCase): void {
    if (!one.disputed) {
      this.parts.counts.audited('dropped');
      return;
    }
    const parties = partiesOf(one);
    const third = this.parts.links().some(({ facts, serving }) => serving && !parties.has(facts.nodeId));
    // Another has no room now, and may have some later.
    const waiting = third ? one : this.suspect(one, one.disputed);
    this.disputes.push(waiting);
    if (this.disputes.length <= MOST_DISPUTED) return;
    const oldest = this.disputes.shift()!;
    this.giveUp(oldest, oldest.disputed!);
  }

  /** One of the two lied, and there is no third that could tell which: neither is put out, and both are watched. */
  private suspect(one: AuditCase, auditor: Party): AuditCase {
    if (one.suspected) return one;
    for (const { nodeId } of [one.maker, auditor]) this.standings.suspect(nodeId);
    const nodes = { node: one.maker.nodeId, auditor: auditor.nodeId };
    this.parts.log.warn({ ...one.sample, ...nodes }, 'no third node settles a failed audit: both are suspected');
    return { ...one, suspected: true };
  }

  private giveUp(one: AuditCase, auditor: Party): void {
    this.suspect(one, auditor);
    this.parts.counts.settled('nobody');
  }

  private take(one: AuditCase, scorer: Party, job: Job): void {
    if (this.closed) return;
    const told = one.scoring.read(job);
    if (!told) {
      // One that left for a request may score it yet; what failed it would again.
      const failed = typeof job.outcome === 'object';
      this.postpone(failed ? { ...one, unable: [...one.unable, scorer.nodeId] } : one);
      return;
    }
    const { counts, log } = this.parts;
    const { maker, disputed, scoring } = one;
    const judgement = scoring.judge(told, scoring.toleranceOf(maker.precision, scorer.precision));
    if (disputed) {
      const alike = scoring.compare(disputed.told, told, scoring.toleranceOf(disputed.precision, scorer.precision));
      this.conclude(one, disputed, judgement, scorer.nodeId, alike);
      return;
    }
    counts.steps(judgement);
    counts.audited(judgement.verdict);
    if (judgement.verdict === 'passes') {
      this.standings.passed(maker.nodeId);
      if (one.canary) this.canaries?.add(one.canary);
    }
    if (judgement.verdict !== 'fails') return;
    this.standings.failed(maker.nodeId);
    log.warn({ ...one.sample, node: maker.nodeId, auditor: scorer.nodeId, ...judgement }, 'sample failed its audit');
    this.begin({ ...one, disputed: { ...scorer, told }, unable: [] });
  }

  private conclude(one: AuditCase, auditor: Party, third: Judgement, thirdId: string, auditors: Judgement): void {
    const { counts, log, putOut } = this.parts;
    const loser = settle(third, auditors);
    counts.settled(loser ?? 'nobody');
    const parties = { node: one.maker.nodeId, auditor: auditor.nodeId, third: thirdId };
    log.warn({ ...one.sample, ...parties, loser: loser ?? 'nobody' }, 'audit settled');
    if (!loser) return;
    const [lost, right] = loser === 'maker' ? [one.maker, auditor] : [auditor, one.maker];
    if (one.suspected) this.standings.clear(right.nodeId);
    this.standings.forget(lost.nodeId);
    // Before it is out: then what runs there goes on elsewhere, or ends.
    const samples = this.made.flag(lost.nodeId, this.parts.jobs());
    counts.flagged(samples.length);
    if (samples.length > 0) log.warn({ node: lost.nodeId, samples }, 'samples of a node that lied');
    putOut(lost.nodeId);
  }
}

function newCase(maker: Party, scoring: Scoring, sample: FlaggedSample, canary: MadeSample | undefined): AuditCase {
  const until = performance.now() + DISPUTE_MS;
  return { maker, scoring, sample, canary, disputed: undefined, suspected: false, unable: [], until };
}
