import { Counter, type Registry } from 'prom-client';
import type { Judgement } from './judge.ts';
import type { Loser } from './settle.ts';

/** Of a sample chosen for an audit: how that went, or why there was none. */
export type AuditOutcome = Judgement['verdict'] | 'unfit' | 'dropped';

/** What /metrics tells of audits. */
export class AuditCounts {
  private readonly outcomes: Counter<'outcome'>;
  private readonly stepVerdicts: Counter<'verdict'>;
  private readonly losers: Counter<'loser'>;
  private readonly flaggedSamples: Counter;
  private readonly canaries: Counter<'outcome'>;
  private readonly told: (outcome: AuditOutcome) => void;

  /** `told` hears of each sample too. */
  constructor(registry: Registry, told: (outcome: AuditOutcome) => void) {
    this.told = told;
    const registers = [registry];
    this.outcomes = new Counter({
      name: 'shoal:audited_samples_total',
      help: 'Samples chosen for an audit: that pass, fail, were open (no step could be judged), unfit, or dropped for want of room.',
      labelNames: ['outcome'],
      registers,
    });
    this.stepVerdicts = new Counter({
      name: 'shoal:audited_steps_total',
      help: 'Steps of audited samples: that agree, differ, or were open.',
      labelNames: ['verdict'],
      registers,
    });
    this.losers = new Counter({
      name: 'shoal:settled_audits_total',
      help: 'Failed audits by who lost them at a third node: the maker, the auditor, or nobody.',
      labelNames: ['loser'],
      registers,
    });
    this.canaries = new Counter({
      name: 'shoal:audit_canaries_total',
      help: "Requests of the relay's own to newcomers: that give what is known, another output, or one of which nothing is known yet.",
      labelNames: ['outcome'],
      registers,
    });
    this.flaggedSamples = new Counter({
      name: 'shoal:flagged_samples_total',
      help: 'Samples that nodes put out by an audit had a part in: of the last minutes, and under way.',
      registers,
    });
  }

  audited(outcome: AuditOutcome): void {
    this.outcomes.inc({ outcome });
    this.told(outcome);
  }

  steps({ judged, differing, open }: Judgement): void {
    this.stepVerdicts.inc({ verdict: 'agrees' }, judged - differing);
    this.stepVerdicts.inc({ verdict: 'differs' }, differing);
    this.stepVerdicts.inc({ verdict: 'open' }, open);
  }

  settled(loser: NonNullable<Loser> | 'nobody'): void {
    this.losers.inc({ loser });
  }

  canary(outcome: 'known' | 'other' | 'new'): void {
    this.canaries.inc({ outcome });
  }

  flagged(samples: number): void {
    this.flaggedSamples.inc(samples);
  }
}
