import type { Build } from './gen/node_relay_pb.ts';

/**
 * Whether a node's page is of another build than the relay's, by the rule that both sides go by: the node reloads, the
 * relay gives it no new job. Where either has no page there is nothing to compare.
 */
export function isOtherBuild(node: Build | undefined, relay: Build | undefined): boolean {
  if (!node?.pageHash || !relay?.pageHash) return false;
  return node.pageHash !== relay.pageHash || node.packageVersion !== relay.packageVersion;
}
