import { signal } from '@preact/signals';

export type Tone = 'good' | 'warn' | 'bad' | undefined;

export interface LogEntry {
  readonly id: number;
  /** Wall clock, in milliseconds; of the last time, where it happened several times in a row. */
  readonly at: number;
  readonly text: string;
  readonly tone: Tone;
  readonly times: number;
}

const MOST = 100;
let entries = 0;

/** What happened to this page's node, the newest first; no word of what it serves. */
export const nodeLog = signal<readonly LogEntry[]>([]);

export function logEvent(text: string, tone?: Tone): void {
  // Who logs from an effect does not depend on the log.
  const log = nodeLog.peek();
  const [newest, ...older] = log;
  const at = Date.now();
  nodeLog.value =
    newest?.text === text
      ? [{ ...newest, at, times: newest.times + 1 }, ...older]
      : [{ id: entries++, at, text, tone, times: 1 }, ...log].slice(0, MOST);
}
