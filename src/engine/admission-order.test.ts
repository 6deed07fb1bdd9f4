import { describe, expect, it } from 'vitest';
import { type AdmissionPolicy, admissionOrder } from './admission-order.ts';
import { retractionVictim } from './retraction-victim.ts';
import { Sequence } from './sequence.ts';
import { letterTokens, request } from './testing/serve.ts';

const tokens = letterTokens(10);

function sequence(
  arrival: number,
  more: { priority?: number; prompt?: number; output?: number; credit?: number } = {},
) {
  const { priority = 0, prompt = 3, output = 0, credit = 1_000 } = more;
  const asked = request(
    BigInt(arrival),
    Array.from({ length: prompt }, () => 1),
    { priority, maxNewTokens: 100 },
  );
  const emittedIds = Array.from({ length: output }, () => 2);
  return new Sequence(asked, { index: 0, credit, emittedIds }, tokens, { arrival, arrivedAt: arrival, kvRoot: '0' });
}

const order = (waiting: Sequence[], policy: AdmissionPolicy, cached: (s: Sequence) => number = () => 0, now = 0) =>
  admissionOrder(waiting, policy, cached, now).map((s) => s.arrival);

describe('admission order', () => {
  const five = () => [3, 1, 4, 0, 2].map((arrival) => sequence(arrival));

  it('fcfs is by arrival', () => {
    expect(order(five(), 'fcfs', (s) => s.arrival)).toEqual([0, 1, 2, 3, 4]);
  });

  it('lpm is by what is cached, then by arrival', () => {
    expect(order(five(), 'lpm', (s) => (s.arrival % 2) * 10)).toEqual([1, 3, 0, 2, 4]);
  });

  it('lpm falls to fcfs over 128 waiting', () => {
    const many = Array.from({ length: 129 }, (_, i) => sequence(i));
    const cached = (s: Sequence) => s.arrival;
    expect(order(many, 'lpm', cached)[0]).toBe(0);
    expect(order(many.slice(0, 128), 'lpm', cached)[0]).toBe(127);
  });

  it('priority is by priority, which grows with waiting', () => {
    const old = sequence(0);
    const urgent = sequence(1, { priority: 2 });
    expect(order([old, urgent], 'priority', undefined, 1)).toEqual([1, 0]);
    const later = new Sequence(urgent.request, urgent.request.samples[0]!, tokens, {
      arrival: 2,
      arrivedAt: 20_000,
      kvRoot: '0',
    });
    expect(order([old, later], 'priority', undefined, 20_000)).toEqual([0, 2]);
  });

  it.each(['lpm', 'priority'] as const)('under %s whoever was overtaken 32 times comes first', (policy) => {
    const passed = sequence(5);
    passed.overtaken = 32;
    const waiting = [sequence(0, { priority: 9 }), passed, sequence(6)];
    expect(order(waiting, policy, (s) => (s === passed ? 0 : 16))[0]).toBe(5);
  });
});

describe('who gives way', () => {
  const victim = (running: Sequence[]) => retractionVictim(running)?.arrival;

  it('is whoever has made least, then has the longest prompt, and never the oldest', () => {
    expect(victim([sequence(0), sequence(1, { output: 3 }), sequence(2, { output: 2 })])).toBe(2);
    expect(victim([sequence(0), sequence(1, { prompt: 5 }), sequence(2, { prompt: 9 })])).toBe(2);
    expect(victim([sequence(0)])).toBeUndefined();
    expect(victim([])).toBeUndefined();
  });

  it('may be the oldest where that one waits for credit and another runs', () => {
    expect(victim([sequence(0, { output: 5, credit: 5 }), sequence(1, { output: 9 })])).toBe(0);
  });
});
