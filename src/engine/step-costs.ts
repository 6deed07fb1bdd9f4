/** A new measurement's weight in the running averages. */
const WEIGHT = 0.25;
/** The first measurements of a kind may hold what happens once: the least of them counts. */
const FIRST = 4;
/** A measurement that was not made again for so many steps is forgotten: what it says may be of another time. */
const KEPT_STEPS = 2_000;

interface Cost {
  ms: number;
  count: number;
  at: number;
}

/** What steps with drafts take on this adapter, by all their rows, measured. */
export class StepCosts {
  readonly #costs = new Map<number, Cost>();
  #steps = 0;

  add(rows: number, ms: number): void {
    this.#steps++;
    const cost = this.#costs.get(rows);
    if (!cost) this.#costs.set(rows, { ms, count: 1, at: this.#steps });
    else {
      cost.count++;
      cost.ms = cost.count <= FIRST ? Math.min(cost.ms, ms) : cost.ms + WEIGHT * (ms - cost.ms);
      cost.at = this.#steps;
    }
  }

  /**
   * Milliseconds of a step of `rows` rows, drafts' among them, of `sequences` sequences whose plain step takes `plainMs`.
   * Between what was measured, and past it, on a straight line; where nothing was, each row takes as long as a plain step's.
   */
  ms(rows: number, sequences: number, plainMs: number): number {
    const perRow = plainMs / sequences;
    let below = { rows: sequences, ms: plainMs };
    let before = below;
    let above: { rows: number; ms: number } | undefined;
    for (const [measured, ms] of this.#points(sequences)) {
      if (measured > rows) {
        above = { rows: measured, ms };
        break;
      }
      before = below;
      below = { rows: measured, ms: Math.max(ms, below.ms) };
    }
    const worst = below.ms + (rows - below.rows) * perRow;
    if (above) {
      const share = (rows - below.rows) / (above.rows - below.rows);
      return Math.min(worst, below.ms + share * Math.max(0, above.ms - below.ms));
    }
    if (below.rows === sequences) return worst;
    const slope = (below.ms - before.ms) / Math.max(1, below.rows - before.rows);
    return Math.min(worst, below.ms + (rows - below.rows) * slope);
  }

  /** What is known of more than `sequences` rows, ascending. */
  #points(sequences: number): [number, number][] {
    const points: [number, number][] = [];
    for (const [rows, { ms, at }] of this.#costs) {
      if (this.#steps - at > KEPT_STEPS) this.#costs.delete(rows);
      else if (rows > sequences) points.push([rows, ms]);
    }
    return points.sort(([a], [b]) => a - b);
  }
}
