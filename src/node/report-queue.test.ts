import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ReportQueue } from './report-queue.ts';

/** What a relay does with reports: takes each seq once, in order. */
class Receiver {
  readonly taken: number[] = [];
  lastSeq = 0n;

  receive(batch: { seq: bigint; events: readonly number[] }): bigint {
    if (batch.seq === this.lastSeq + 1n) {
      this.lastSeq = batch.seq;
      this.taken.push(...batch.events);
    } else if (batch.seq !== 0n) expect(batch.seq).toBeLessThanOrEqual(this.lastSeq);
    return this.lastSeq;
  }
}

describe('report queue', () => {
  it('brings every event once and in order, whatever calls and answers are lost', () => {
    const act = fc.oneof(
      fc.record({ push: fc.integer({ min: 1, max: 600 }) }),
      fc.record({ send: fc.constantFrom('both', 'lostCall', 'lostAnswer') }),
    );
    fc.assert(
      fc.property(fc.array(act, { maxLength: 80 }), (acts) => {
        const queue = new ReportQueue<number>();
        const receiver = new Receiver();
        let pushed = 0;
        for (const step of acts) {
          if ('push' in step) queue.push(Array.from({ length: step.push }, () => pushed++));
          else {
            const batch = queue.next();
            expect(batch.events.length).toBeLessThanOrEqual(256);
            expect(batch.seq === 0n).toBe(batch.events.length === 0);
            if (step.send === 'lostCall') continue;
            const answer = receiver.receive(batch);
            if (step.send === 'both') queue.acknowledge(answer);
          }
        }
        while (!queue.empty) queue.acknowledge(receiver.receive(queue.next()));
        expect(receiver.taken).toEqual(Array.from({ length: pushed }, (_, i) => i));
      }),
    );
  });

  it('starts again at seq 1, with nothing of the old session', () => {
    const queue = new ReportQueue<number>();
    queue.push([1]);
    queue.next();
    queue.push([2]);
    queue.reset();
    expect(queue.empty).toBe(true);
    queue.push([3]);
    expect(queue.next()).toEqual({ seq: 1n, events: [3] });
  });

  it('waits for an event, for the time given, or for the end', async () => {
    const queue = new ReportQueue<number>();
    const never = new AbortController();
    const woken = queue.wait(60_000, never.signal);
    queue.push([1]);
    await woken;
    await queue.wait(60_000, never.signal);
    queue.reset();
    await queue.wait(1, never.signal);
    const poked = queue.wait(60_000, never.signal);
    queue.poke();
    await poked;
    // While nobody waits, too: the next wait is over at once, and only that one.
    queue.poke();
    await queue.wait(60_000, never.signal);
    await queue.wait(1, never.signal);
    const aborted = queue.wait(60_000, never.signal);
    never.abort();
    await aborted;
    await queue.wait(60_000, never.signal);
  });
});

it('takes fewer events where they weigh much, and one that weighs too much by itself', () => {
  const queue = new ReportQueue<number>((event) => event);
  queue.push([100_000, 100_000, 100_000, 900_000, 1, 2]);
  const sizes: (readonly number[])[] = [];
  for (let batch = queue.next(); batch.seq !== 0n; batch = queue.next()) {
    sizes.push(batch.events);
    queue.acknowledge(batch.seq);
  }
  expect(sizes).toEqual([[100_000, 100_000], [100_000], [900_000], [1, 2]]);
});

it('has room while nothing is to go again and no whole report waits', () => {
  const queue = new ReportQueue<number>();
  expect(queue.hasRoom).toBe(true);
  queue.push([1]);
  const { seq } = queue.next();
  expect(queue.hasRoom).toBe(false);
  queue.acknowledge(seq);
  expect(queue.hasRoom).toBe(true);
  queue.push(Array.from({ length: 200 }, (_, at) => at));
  expect(queue.hasRoom).toBe(false);
});
