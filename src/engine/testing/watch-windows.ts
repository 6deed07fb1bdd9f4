import type { CpuRunner } from '../../model/cpu-runner.ts';
import { BLOCK_TOKENS, type StepBatch } from '../../model/runner.ts';
import type { Scheduler } from '../scheduler.ts';

/** Throws where a sequence has more of a windowed group than its window, a chunk of so many rows and one block. */
export function checkWindows({ kv, running }: Scheduler, chunk: number): void {
  for (const [g, { window }] of kv.groups.entries()) {
    if (window === undefined) continue;
    const most = Math.ceil((window + chunk) / BLOCK_TOKENS) + 1;
    for (const sequence of running) {
      const held = sequence.kv.held(g);
      if (held > most) throw new Error(`sequence ${sequence.arrival} has ${held} blocks of group ${g}, over ${most}`);
    }
  }
}

/** Puts NaN into every block that nobody has when a step is submitted: whoever reads it before it is written is found. */
export function spoilFree({ kv }: Scheduler, runner: CpuRunner, { copies = [] }: StepBatch): void {
  for (const g of kv.groups.keys()) {
    // Copies come first: what they read may be given back already.
    const read = new Set(copies.map((copy) => (g === 0 ? copy.from : copy.more![g - 1]!.from)));
    const free = kv.freeBlocks(g).filter((block) => !read.has(block));
    runner.spoil(g, free);
  }
}
