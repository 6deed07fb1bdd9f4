import type { RequestTimeline } from '../../contract/gen/fleet_monitor_pb.ts';

export interface Phase {
  readonly name: 'queued' | 'prefill' | 'decode';
  /** Milliseconds since the request came. */
  readonly fromMs: number;
  readonly toMs: number;
}

export interface TimelineEvent {
  readonly atMs: number;
  readonly what: string;
}

/** One request's times, from its arrival on. */
export interface RequestPhases {
  readonly phases: readonly Phase[];
  /** When it went to another node than before. */
  readonly moves: readonly { readonly atMs: number; readonly rank: number }[];
  readonly totalMs: number;
  readonly open: boolean;
  /** All of it in order, in words. */
  readonly events: readonly TimelineEvent[];
}

/** `nowMs` is of the relay's clock: an open request has come so far. */
export function phasesOf(request: RequestTimeline, nowMs: number): RequestPhases {
  const { arrivedAtMs, firstTokenAtMs, endedAtMs, stays } = request;
  const open = endedAtMs === undefined;
  const since = (at: number) => Math.max(0, at - arrivedAtMs);
  const totalMs = since(endedAtMs ?? nowMs);
  const given = stays[0] && since(stays[0].atMs);
  const first = firstTokenAtMs === undefined ? undefined : since(firstTokenAtMs);
  const phases: Phase[] = [{ name: 'queued', fromMs: 0, toMs: given ?? totalMs }];
  if (given !== undefined) phases.push({ name: 'prefill', fromMs: given, toMs: first ?? totalMs });
  if (first !== undefined) phases.push({ name: 'decode', fromMs: first, toMs: totalMs });
  const moves = stays.slice(1).map(({ atMs, rank }) => ({ atMs: since(atMs), rank }));
  const events = [
    { atMs: 0, what: 'came' },
    ...(stays[0] && given !== undefined ? [{ atMs: given, what: `given to rank ${stays[0].rank}` }] : []),
    ...(first === undefined ? [] : [{ atMs: first, what: 'first token' }]),
    ...moves.map(({ atMs, rank }) => ({ atMs, what: `went on at rank ${rank}` })),
  ].toSorted((a, b) => a.atMs - b.atMs);
  if (!open) events.push({ atMs: totalMs, what: `ended: ${outcomeWords(request.outcome)}` });
  return { phases, moves, totalMs, open, events };
}

const OUTCOMES: Readonly<Record<string, string>> = {
  complete: 'complete',
  aborted: 'aborted',
  left: 'its client left',
};

export function outcomeWords(outcome: string): string {
  // A status's name, such as DeadlineExceeded.
  return OUTCOMES[outcome] ?? outcome.replaceAll(/(?<=[a-z])(?=[A-Z])/g, ' ').toLowerCase();
}

/** A number that a scale may end at, 1, 2 or 5 times a power of ten: it changes seldom. */
export function scaleEnd(most: number): number {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  const digit = most / power;
  return (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10) * power;
}
