import { create } from '@bufbuild/protobuf';
import { invalid } from '../contract/contract-error.ts';
import { type FlushCacheResponse, FlushCacheResponseSchema } from '../contract/gen/smg_common_pb.ts';
import { showFloat } from '../contract/show-float.ts';
import type { Fleet } from './fleet.ts';
import type { JobTable } from './job-table.ts';
import type { NodeLink } from './node-link.ts';
import type { Flushed } from './pending-flushes.ts';

/** Nodes have at least so long to answer. */
const LEAST_ANSWER_MS = 5_000;
/** Neither the wait for an idle relay nor that for answers takes longer, whatever is asked for. */
const MAX_WAIT_MS = 60_000;

export interface FlushParts {
  readonly fleet: Pick<Fleet, 'serving' | 'links'>;
  readonly table: JobTable;
}

/**
 * Empties the prefix caches of all nodes that serve. With a timeout it waits for an idle relay first, then flushes
 * anyway: what runs keeps its prefix. `left` ends it early. Throws ContractError for a timeout that is none.
 */
export async function flushCache(
  { fleet, table }: FlushParts,
  timeoutS: number,
  left: AbortSignal,
): Promise<FlushCacheResponse> {
  if (!Number.isFinite(timeoutS) || timeoutS < 0) {
    throw invalid('timeout_s', `must be finite and >= 0, got ${showFloat(timeoutS)}.`);
  }
  const idleMs = Math.min(timeoutS * 1000, MAX_WAIT_MS);
  const answerMs = Math.max(idleMs, LEAST_ANSWER_MS);
  if (fleet.serving.length > 0) await within(idleMs, left, (over) => untilIdle(table, over));
  const links = fleet.serving;
  if (links.length === 0) return answerOf(false, ['No node is serving.']);
  const unasked = fleet.links.length - links.length;
  const running = links.reduce((total, link) => total + link.runningJobs, 0);
  const answers = new Map<NodeLink, Flushed>();
  await within(answerMs, left, async (over) => {
    const all = links.map(async (link) => {
      const answer = await link.asks.flushCache();
      if (answer) answers.set(link, answer);
    });
    await Promise.race([Promise.all(all), aborted(over)]);
  });
  const silent = links.filter((link) => !answers.has(link));
  const lost = silent.filter((link) => link.ended).length;
  const late = silent.length - lost;
  const freed = [...answers.values()].reduce((total, { freedTokens }) => total + freedTokens, 0);
  const message = [`Freed ${count(freed, 'token')} at ${ofAll(answers.size, links.length)}.`];
  if (running > 0) {
    const waited = idleMs > 0 ? `, after ${seconds(idleMs)} s,` : '';
    message.push(`${count(running, 'request')} still ran${waited} and ${kept(running, [...answers.values()])}.`);
  }
  if (lost > 0) message.push(`${count(lost, 'node')} went before answering.`);
  if (late > 0) message.push(`${count(late, 'node')} did not answer within ${seconds(answerMs)} s.`);
  if (unasked > 0) message.push(`${count(unasked, 'node')} out of reach or leaving ${was(unasked)} not asked.`);
  return answerOf(silent.length === 0, message);
}

/** Until no job runs or waits, or `over`. */
async function untilIdle(table: JobTable, over: AbortSignal): Promise<void> {
  while (!over.aborted && !table.idle) await table.ended.wait(over);
}

/** What runs holds its prefix, and each node tells how much is still cached. */
function kept(running: number, answers: readonly Flushed[]): string {
  const keeps = running === 1 ? 'keeps its prefix' : 'keep their prefixes';
  if (answers.some(({ keptTokens }) => keptTokens === undefined)) return keeps;
  const tokens = answers.reduce((total, { keptTokens = 0 }) => total + keptTokens, 0);
  return `${keeps}: ${count(tokens, 'token')} ${tokens === 1 ? 'stays' : 'stay'} cached`;
}

/** Runs `work` with a signal that is aborted after `ms`, or with `left`. */
async function within(ms: number, left: AbortSignal, work: (over: AbortSignal) => Promise<void>): Promise<void> {
  const bound = new AbortController();
  const end = () => bound.abort();
  const timer = setTimeout(end, ms);
  if (left.aborted || ms === 0) end();
  left.addEventListener('abort', end);
  try {
    await work(bound.signal);
  } finally {
    clearTimeout(timer);
    left.removeEventListener('abort', end);
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}

function answerOf(success: boolean, message: readonly string[]): FlushCacheResponse {
  return create(FlushCacheResponseSchema, { success, message: message.join(' ') });
}

function ofAll(some: number, all: number): string {
  return some === all ? count(all, 'node') : `${some} of ${count(all, 'node')}`;
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

function was(number: number): string {
  return number === 1 ? 'was' : 'were';
}

function seconds(ms: number): string {
  return String(Math.round(ms) / 1000);
}
