import { hasRoom } from '../choose-node.ts';
import { fitsAt } from '../generate-command.ts';
import type { Job } from '../job.ts';
import type { NodeLink } from '../node-link.ts';
import { type PrecisionName, toleranceOf } from './tolerance.ts';

/**
 * The node that scores a job: none of `parties`, with room for it and for one client's request besides, unless it idles;
 * the least busy, any of several. What settles a dispute, of a sample made with `settles`, goes to a node of the operator's where one could
 * take it, and rather to one that can tell more finely. Undefined: none could.
 */
export function chooseAuditor(
  links: Iterable<NodeLink>,
  job: Job,
  parties: ReadonlySet<string>,
  settles: PrecisionName | undefined,
  random: () => number,
): NodeLink | undefined {
  const able = [...links].filter(
    (link) =>
      link.serving &&
      !parties.has(link.facts.nodeId) &&
      fitsAt(job, link.facts) &&
      hasRoom({ runningSamples: link.runningSamples, maxRunning: link.facts.maxRunning }, 2),
  );
  const trusted = able.filter((link) => link.trusted);
  const busy = (link: NodeLink) => link.runningSamples / link.facts.maxRunning;
  const coarse = ({ facts }: NodeLink) => (settles ? toleranceOf(settles, facts.precision) : 0);
  const from = settles && trusted.length > 0 ? trusted : able;
  // Else one node would score all that another makes.
  const shuffled = from.map((link) => ({ link, turn: random() })).sort((a, b) => a.turn - b.turn);
  return shuffled.map(({ link }) => link).sort((a, b) => coarse(a) - coarse(b) || busy(a) - busy(b))[0];
}
