import type { CacheNode } from './cache-node.ts';

/** The leaves that nobody runs on, the least recently used last. */
export function leastUsedLast(nodes: Iterable<CacheNode>): CacheNode[] {
  const leaves: CacheNode[] = [];
  for (const node of nodes) {
    if (node.locks === 0 && node.children.length === 0) leaves.push(node);
  }
  return leaves.sort((a, b) => b.usedAt - a.usedAt);
}

/** Keeps `leaves` sorted. */
export function insertByUse(leaves: CacheNode[], node: CacheNode): void {
  let low = 0;
  let high = leaves.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (leaves[middle]!.usedAt > node.usedAt) low = middle + 1;
    else high = middle;
  }
  leaves.splice(low, 0, node);
}
