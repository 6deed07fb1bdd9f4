import type { ReportFate } from './faulty-proxy.ts';

/** What may happen to a node, for so many milliseconds. Each resolves once it is over. */
export interface ChaosNode {
  /** It has work now. */
  readonly busy: boolean;
  /** Rejects where it serves no more, and nobody told it to: put out by its relay, such as one that lied. Undisturbed. */
  check(): Promise<void>;
  /** It goes without a word, and another comes. */
  kill(): Promise<void>;
  /** It goes, and says so; another comes. */
  leave(): Promise<void>;
  /** It stands still, or nothing of it passes, and its connections stay. */
  freeze(ms: number): Promise<void>;
  /** Its connections break. */
  cut(ms: number): Promise<void>;
  slow(ms: number): Promise<void>;
  /** Its reports come twice, late, out of order, or their answers don't come. */
  muddle(ms: number, fate: () => ReportFate): Promise<void>;
}

export const DISTURBANCES = ['kill', 'leave', 'freeze', 'cut', 'slow', 'duplicate', 'reorder'] as const;
export type Disturbance = (typeof DISTURBANCES)[number];
