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

/** What decode steps take on this adapter, by their rows, measured. */
export class StepCosts {
  /** By sequences, each with one row: with what overlaps, and a share of the readback. */
  readonly #plain = new Map<number, Cost>();
  /** By rows, drafts' among them. */
  readonly #drafted = new Map<number, Cost>();
  #steps = 0;

  /** Milliseconds of a step without drafts; undefined: it wasn't measured. */
  plain(sequences: number): number | undefined {
    return this.#plain.get(sequences)?.ms;
  }

  addPlain(sequences: number, ms: number): void {
    add(this.#plain, sequences, ms, ++this.#steps);
  }

  addDrafted(rows: number, ms: number): void {
    add(this.#drafted, rows, ms, ++this.#steps);
  }

  /**
   * Milliseconds of a step of `rows` rows, drafts' among them, of `sequences` sequences whose plain step takes `plainMs`.
   * Between what was measured, and past it, on a straight line; where nothing was, each row takes as long as a plain step's.
   */
  drafted(rows: number, sequences: number, plainMs: number): number {
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

  /** What is known of more than `sequences` rows, ascending; drafts' own measurements before those of other sequences. */
  #points(sequences: number): [number, number][] {
    const points = new Map<number, number>();
    for (const [rows, { ms }] of this.#plain) if (rows > sequences) points.set(rows, ms);
    for (const [rows, { ms, at }] of this.#drafted) {
      if (this.#steps - at > KEPT_STEPS) this.#drafted.delete(rows);
      else if (rows > sequences) points.set(rows, ms);
    }
    return [...points].sort(([a], [b]) => a - b);
  }
}

function add(costs: Map<number, Cost>, key: number, ms: number, at: number): void {
  const cost = costs.get(key);
  if (!cost) costs.set(key, { ms, count: 1, at });
  else {
    cost.count++;
    cost.ms = cost.count <= FIRST ? Math.min(cost.ms, ms) : cost.ms + WEIGHT * (ms - cost.ms);
    cost.at = at;
  }
}
