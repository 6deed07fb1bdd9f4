import { describe, expect, it } from 'vitest';
import { Pace } from './pace.ts';

const decode = (decodeRows: number, ms: number, steps = 1) => ({ decodeRows, prefillRows: 0, steps, ms });

describe('the pace', () => {
  it('gives prefill all its rows while nobody decodes', () => {
    expect(new Pace(192).prefillRows(0, 1)).toBe(192);
  });

  it('begins with few rows beside running ones, then takes as many as half a step is worth', () => {
    const pace = new Pace(192);
    expect(pace.prefillRows(4, 1)).toBe(1);
    pace.measured(decode(4, 10));
    expect(pace.prefillRows(4, 1)).toBe(1);
    // One row took 0.25 ms more: half a step is 5 ms. But twice as many as before are enough.
    const rows: number[] = [];
    for (let i = 0; i < 6; i++) {
      const prefillRows = pace.prefillRows(4, 1);
      rows.push(prefillRows);
      pace.measured({ decodeRows: 4, prefillRows, steps: 1, ms: 10 + 0.25 * prefillRows });
    }
    expect(rows).toEqual([1, 2, 4, 8, 16, 20]);
    // Rows that cost next to nothing.
    for (let i = 0; i < 100; i++) {
      pace.measured({ decodeRows: 4, prefillRows: pace.prefillRows(4, 1), steps: 1, ms: 10.01 });
    }
    expect(pace.prefillRows(4, 1)).toBe(192);
    // And rows that cost a lot again: each step has half as many as the one before.
    const fewer: number[] = [];
    for (let i = 0; i < 7; i++) {
      const prefillRows = pace.prefillRows(4, 1);
      fewer.push(prefillRows);
      pace.measured({ decodeRows: 4, prefillRows, steps: 1, ms: 10 + 20 * prefillRows });
    }
    expect(fewer).toEqual([192, 96, 48, 24, 12, 6, 3]);
    pace.measured({ decodeRows: 4, prefillRows: 1, steps: 1, ms: 50 });
    expect(pace.prefillRows(4, 1)).toBe(1);
  });

  it('gives several prompts a share each, up to four', () => {
    const pace = new Pace(192);
    expect([1, 2, 4, 9].map((prompts) => pace.prefillRows(4, prompts))).toEqual([1, 2, 4, 4]);
    pace.measured(decode(4, 10));
    for (let i = 0; i < 30; i++) pace.measured({ decodeRows: 4, prefillRows: 20, steps: 1, ms: 30 });
    expect([1, 2, 4, 9].map((prompts) => pace.prefillRows(4, prompts))).toEqual([10, 10, 20, 20]);
  });

  it('measures single steps, tries two, then takes as many as hide the readback', () => {
    const pace = new Pace(192);
    expect(pace.decodeSteps()).toBe(1);
    pace.measured(decode(1, 4));
    expect(pace.decodeSteps()).toBe(2);
    // A step is 3 ms, a readback 1 ms: a tenth of the steps' time is 1 ms at four steps.
    pace.measured(decode(1, 7, 2));
    expect(pace.decodeSteps()).toBe(4);
  });

  it('finds its way back from single steps, when what a step more adds was of more rows, or chance', () => {
    const pace = new Pace(192);
    pace.measured(decode(16, 21));
    pace.measured(decode(16, 41, 2));
    // One sequence is left, its steps 3 ms and a readback.
    let turns = 0;
    while (pace.decodeSteps() === 1 && turns++ < 1_000) pace.measured(decode(1, 4));
    expect(pace.decodeSteps()).toBe(2);
    expect(turns).toBeLessThan(100);
    pace.measured(decode(1, 7, 2));
    expect(pace.decodeSteps()).toBeGreaterThanOrEqual(4);
  });

  it('takes single steps where a readback costs nothing, and no burst that people would see', () => {
    const free = new Pace(192);
    free.measured(decode(1, 20));
    free.measured(decode(1, 40, 2));
    expect(free.decodeSteps()).toBe(1);
    const slow = new Pace(192);
    slow.measured(decode(1, 50));
    slow.measured(decode(1, 80, 2));
    expect(slow.decodeSteps()).toBe(2);
  });
});
