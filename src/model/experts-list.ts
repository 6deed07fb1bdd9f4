import type { ExpertsNeed } from '../gpu/kernel-needs.ts';
import type { LinearPartShape } from '../gpu/linear-choice.ts';
import type { Cuttable } from '../gpu/plan-parts.ts';
import { planSegments } from '../gpu/plan-segments.ts';
import { quantFormat, quantShape } from '../gpu/quant-format.ts';
import { isQuantFormat, type MatrixFormat } from '../gpu/weight-format.ts';
import type { AnySource } from '../gpu/weight-matrix.ts';
import type { ExpertsConfig } from './decoder-config.ts';
import type { ExpertSources } from './layer-sources.ts';

/** Which kernels the mixtures of a model's layers need, as findExperts will load them. */
export class ExpertsList {
  readonly #bindingLimit: number;
  readonly #routes = new Map<string, ExpertsNeed['routes'][number]>();
  readonly #parts = new Map<string, LinearPartShape>();
  readonly #wider = new Map<string, LinearPartShape>();

  constructor(bindingLimit: number) {
    this.#bindingLimit = bindingLimit;
  }

  /** Undefined: no layer has one. */
  get need(): ExpertsNeed | undefined {
    if (this.#routes.size === 0) return undefined;
    return { routes: [...this.#routes.values()], parts: [...this.#parts.values()], wider: [...this.#wider.values()] };
  }

  /** Throws RangeError where a tile is over the limit. */
  add(hiddenSize: number, { experts: count, chosen, size }: ExpertsConfig, { experts }: ExpertSources): void {
    this.#routes.set(`${chosen} of ${count}`, { experts: count, chosen });
    const gateUp = experts.map(({ gate, up }) => [gate, up]);
    if (!this.#plan(hiddenSize, gateUp, true)) {
      for (const of of ['gate', 'up'] as const) {
        this.#plan(
          hiddenSize,
          experts.map((expert) => [expert[of]]),
        );
      }
    }
    this.#plan(
      size,
      experts.map(({ down }) => [down]),
    );
  }

  /** False: formats change inside of a segment. */
  #plan(columns: number, segments: readonly (readonly AnySource[])[], paired = false): boolean {
    const add = (to: Map<string, LinearPartShape>, all: readonly (readonly Cuttable[])[]) => {
      const plans = planSegments(columns, all, this.#bindingLimit, paired);
      for (const { tiles, format } of plans ?? []) to.set(`${format} ${tiles}x${columns}`, { tiles, columns, format });
      return plans !== undefined;
    };
    if (!add(this.#parts, segments)) return false;
    const wide = segments.map((own) =>
      own.map(({ label, rows, format }) => ({ label, rows, format: wideFormat(format) })),
    );
    if (wide.some((own, i) => own.some(({ format }, j) => format !== segments[i]![j]!.format))) add(this.#wider, wide);
    return true;
  }
}

/** What a matrix is kept in whose scales turn out not to be halves. */
function wideFormat(format: MatrixFormat): MatrixFormat {
  return isQuantFormat(format) ? quantFormat({ ...quantShape(format), scale: 'f32' }) : format;
}
