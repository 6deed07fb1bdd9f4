import { Gauge, type Registry } from 'prom-client';
import type { NodeLink } from '../node-link.ts';
import type { Audits } from './audits.ts';

/** Has /metrics tell what audits found of each node that serves. */
export function addNodeAudits(
  registry: Registry,
  serving: () => readonly NodeLink[],
  audits: Pick<Audits, 'of'>,
): void {
  const registers = [registry];
  new Gauge({
    name: 'shoal:node_audited_samples',
    help: "The node's samples that passed an audit, and that failed one, as long as it is remembered.",
    labelNames: ['dp_rank', 'outcome'],
    registers,
    collect() {
      this.reset();
      for (const { rank, facts } of serving()) {
        const { passes, fails } = audits.of(facts.nodeId);
        this.set({ dp_rank: rank, outcome: 'passes' }, passes);
        this.set({ dp_rank: rank, outcome: 'fails' }, fails);
      }
    },
  });
  new Gauge({
    name: 'shoal:node_audit_suspicions',
    help: 'Failed audits that the node made or scored the sample of, and that no third node could settle; until it passed enough since.',
    labelNames: ['dp_rank'],
    registers,
    collect() {
      this.reset();
      for (const { rank, facts } of serving()) this.set({ dp_rank: rank }, audits.of(facts.nodeId).suspicions);
    },
  });
}
