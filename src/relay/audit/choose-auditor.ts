import { hasRoom } from '../choose-node.ts';
import { fitsAt } from '../generate-command.ts';
import type { Job } from '../job.ts';
import type { NodeLink } from '../node-link.ts';

/**
 * The node that scores a job: none of `parties`, with room for it and for one client's request besides, unless it idles;
 * the least busy. What settles a dispute goes to a node of the operator's, where one could take it. Undefined: none could.
 */
export function chooseAuditor(
  links: Iterable<NodeLink>,
  job: Job,
  parties: ReadonlySet<string>,
  settles: boolean,
): NodeLink | undefined {
  const able = [...links].filter(
    (link) =>
      link.serving &&
      !parties.has(link.facts.nodeId) &&
      fitsAt(job, link.facts) &&
      hasRoom({ runningSamples: link.runningSamples, maxRunning: link.facts.maxRunning }, 2),
  );
  const trusted = settles ? able.filter((link) => link.trusted) : [];
  const busy = (link: NodeLink) => link.runningSamples / link.facts.maxRunning;
  return (trusted.length > 0 ? trusted : able).sort((a, b) => busy(a) - busy(b))[0];
}
