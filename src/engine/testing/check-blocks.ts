import { BLOCK_TOKENS, NO_BLOCK } from '../../model/runner.ts';
import type { CacheNode } from '../cache-node.ts';
import type { Scheduler } from '../scheduler.ts';
import type { Sequence } from '../sequence.ts';

/** Throws unless every block has exactly one owner, every lock a holder, and every cached token its place. */
export function checkBlocks(scheduler: Scheduler): void {
  const { kv, running, waiting } = scheduler;
  const nodes = new Set(kv.nodes());
  for (const node of nodes) checkNode(node);
  const locks = new Map<CacheNode, number>();
  for (const sequence of running) {
    checkPath(sequence, nodes);
    for (const node of sequence.kv.shared) locks.set(node, (locks.get(node) ?? 0) + 1);
  }
  for (const node of nodes) {
    const held = locks.get(node) ?? 0;
    if (node.locks !== held) throw new Error(`node ${node.id} has ${node.locks} locks and ${held} holders`);
  }
  for (const g of kv.groups.keys()) checkGroup(scheduler, g, nodes);
  const isPrivate = [...running, ...waiting].some(({ kvKey }) => kvKey.private);
  if (!isPrivate && nodes.size > [...kv.prefixes.nodes()].length) throw new Error('what was private is left');
  for (const sequence of waiting) {
    if (sequence.slot >= 0 || sequence.kv.tables.length > 0) throw new Error('a waiting sequence holds blocks');
  }
}

function checkNode(node: CacheNode): void {
  const { tokens, children, parent, id, blocks } = node;
  if (tokens.length < 1 || tokens.length > BLOCK_TOKENS) throw new Error('a node of no or too many tokens');
  if (children.length > 0 && tokens.length < BLOCK_TOKENS) throw new Error('a part of a block has children');
  if (!parent?.children.includes(node)) throw new Error(`node ${id} is not among its parent's children`);
  const isEmpty = blocks.every((block) => block === NO_BLOCK);
  if (isEmpty && children.length === 0 && node.locks === 0) throw new Error(`node ${id} is of no use`);
}

/** What a sequence shares are nodes of its own tokens, one below the other. */
function checkPath({ arrival, slot, ids, kv: { shared } }: Sequence, nodes: ReadonlySet<CacheNode>): void {
  const name = `sequence ${arrival}`;
  if (slot < 0) throw new Error(`${name} runs without a slot`);
  shared.forEach((node, i) => {
    if (!nodes.has(node)) throw new Error(`${name} shares node ${node.id}, which the cache does not hold`);
    if (node.parent !== shared[i - 1] && !(i === 0 && node.parent?.id === -1)) throw new Error(`${name}: no path`);
    const own = ids.slice(i * BLOCK_TOKENS, (i + 1) * BLOCK_TOKENS);
    if (own.join() !== node.tokens.join()) throw new Error(`${name} shares a block of other tokens`);
  });
}

/** Every block of a group is free, cached, or one sequence's. */
function checkGroup({ kv, running }: Scheduler, g: number, nodes: ReadonlySet<CacheNode>): void {
  const { blocks, window } = kv.groups[g]!;
  const owners = new Map<number, string>();
  const own = (block: number, owner: string) => {
    const other = owners.get(block);
    if (other !== undefined) throw new Error(`block ${block} of group ${g} belongs to ${owner} and to ${other}`);
    owners.set(block, owner);
  };
  const seen = new Map<CacheNode, number>();
  for (const node of nodes) {
    const block = node.blocks[g]!;
    if (block !== NO_BLOCK) own(block, 'the cache');
    else if (window === undefined) throw new Error(`node ${node.id} has no block of group ${g}`);
  }
  for (const sequence of running) {
    const name = `sequence ${sequence.arrival}`;
    const { tables, from, shared } = sequence.kv;
    const table = tables[g]!;
    const first = from[g]!;
    if (table.length * BLOCK_TOKENS < sequence.computed) throw new Error(`${name} has positions without a block`);
    if (window === undefined && first > 0) throw new Error(`${name} gave blocks back that it sees`);
    table.forEach((block, i) => {
      if (i < first !== (block === NO_BLOCK))
        throw new Error(`${name} has block ${block} at ${i}, ${first} is its first`);
      if (i < first) return;
      if (i >= shared.length) own(block, name);
      else if (block !== shared[i]!.blocks[g]) throw new Error(`${name} has block ${block} where it shares another`);
      else seen.set(shared[i]!, (seen.get(shared[i]!) ?? 0) + 1);
    });
  }
  for (const node of nodes) {
    const count = window === undefined ? 0 : (seen.get(node) ?? 0);
    if (node.seen[g] !== count) throw new Error(`node ${node.id} is seen by ${node.seen[g]}, and ${count} see it`);
  }
  if (owners.size + kv.free(g) !== blocks) {
    throw new Error(`${owners.size} blocks of group ${g} owned and ${kv.free(g)} free, of ${blocks}`);
  }
}
