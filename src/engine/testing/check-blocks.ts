import { BLOCK_TOKENS } from '../../model/runner.ts';
import type { CacheNode } from '../prefix-cache.ts';
import type { Scheduler } from '../scheduler.ts';

/** Throws unless every block has exactly one owner, every lock a holder, and every cached token its place. */
export function checkBlocks(scheduler: Scheduler): void {
  const { kv, running, waiting } = scheduler;
  const owners = new Map<number, string>();
  const own = (block: number, owner: string) => {
    const other = owners.get(block);
    if (other !== undefined) throw new Error(`block ${block} belongs to ${owner} and to ${other}`);
    owners.set(block, owner);
  };
  const locks = new Map<CacheNode, number>();
  const nodes = new Set(kv.nodes());
  for (const node of nodes) {
    own(node.block, 'the cache');
    if (node.tokens.length < 1 || node.tokens.length > BLOCK_TOKENS) throw new Error('a node of no or too many tokens');
    if (node.children.length > 0 && node.tokens.length < BLOCK_TOKENS)
      throw new Error('a part of a block has children');
    if (!node.parent?.children.includes(node))
      throw new Error(`block ${node.block} is not among its parent's children`);
  }
  for (const sequence of running) {
    const { table, shared } = sequence.kv;
    const name = `sequence ${sequence.arrival}`;
    if (sequence.slot < 0) throw new Error(`${name} runs without a slot`);
    if (table.length * BLOCK_TOKENS < sequence.computed) throw new Error(`${name} has positions without a block`);
    shared.forEach((node, i) => {
      if (!nodes.has(node)) throw new Error(`${name} shares block ${node.block}, which the cache does not hold`);
      if (table[i] !== node.block) throw new Error(`${name} has block ${table[i]} where it shares ${node.block}`);
      if (node.parent !== shared[i - 1] && !(i === 0 && node.parent?.block === -1)) throw new Error(`${name}: no path`);
      const ids = sequence.ids.slice(i * BLOCK_TOKENS, (i + 1) * BLOCK_TOKENS);
      if (ids.join() !== node.tokens.join()) throw new Error(`${name} shares a block of other tokens`);
      locks.set(node, (locks.get(node) ?? 0) + 1);
    });
    for (const block of table.slice(shared.length)) own(block, name);
  }
  for (const node of nodes) {
    const held = locks.get(node) ?? 0;
    if (node.locks !== held) throw new Error(`block ${node.block} has ${node.locks} locks and ${held} holders`);
  }
  const isPrivate = [...running, ...waiting].some(({ kvKey }) => kvKey.private);
  if (!isPrivate && nodes.size > [...kv.prefixes.nodes()].length) throw new Error('what was private is left');
  for (const sequence of waiting) {
    if (sequence.slot >= 0 || sequence.kv.table.length > 0) throw new Error('a waiting sequence holds blocks');
  }
  if (owners.size + kv.free !== kv.blocks) {
    throw new Error(`${owners.size} blocks owned and ${kv.free} free, of ${kv.blocks}`);
  }
}
