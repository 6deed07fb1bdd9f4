import uPlot from 'uplot';
import { timeOfDay } from '../format.ts';
import type { ChartSpec } from './chart-specs.ts';
import type { HistoryColumns } from './history-columns.ts';

const HEIGHT = 132;
const AXIS_FONT = '11px system-ui, sans-serif';
const HOUR_S = 3_600;
/** Below this width a time label needs more of it. */
const LABEL_SPACE = 64;

export interface PlotParts {
  readonly spec: ChartSpec;
  readonly columns: HistoryColumns;
  /** Elements whose colours are the series', and one whose colour and border are the axes'. */
  readonly swatches: readonly HTMLElement[];
  readonly frame: HTMLElement;
}

/** uPlot follows the pointer by itself, and as often as it moves; here all charts follow one cursor. */
const UNBOUND = () => null;

/** One chart of the relay's history. It draws when it is told to: `refresh` for data, `repaint` for colours, `fit` for room. */
export class ChartPlot {
  private readonly plot: uPlot;
  private readonly parts: PlotParts;
  private colours: { readonly series: readonly string[]; readonly text: string; readonly line: string };

  constructor(parts: PlotParts) {
    this.parts = parts;
    this.colours = this.readColours();
    this.plot = new uPlot(this.options(), this.data(), parts.frame);
  }

  refresh(): void {
    this.plot.setData(this.data());
  }

  repaint(): void {
    this.colours = this.readColours();
    this.plot.redraw(false, true);
  }

  /** Shows the line at a point; undefined: none. */
  point(index: number | undefined): void {
    const at = index === undefined ? undefined : this.parts.columns.at[index];
    const left = at === undefined ? -10 : this.plot.valToPos(at, 'x');
    this.plot.setCursor({ left, top: left < 0 ? -10 : 0 }, false);
  }

  /** The point nearest to a place in the window; undefined: there is none. */
  nearest(clientX: number): number | undefined {
    const { length } = this.parts.columns;
    if (length === 0) return undefined;
    const { left } = this.plot.over.getBoundingClientRect();
    return Math.min(length - 1, Math.max(0, this.plot.posToIdx(clientX - left)));
  }

  fit(): void {
    const width = this.width;
    if (width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
  }

  destroy(): void {
    this.plot.destroy();
  }

  private get width(): number {
    return Math.floor(this.parts.frame.clientWidth);
  }

  private data(): uPlot.AlignedData {
    const { spec, columns } = this.parts;
    return [columns.at, ...spec.series.map(({ column }) => columns.column(column))];
  }

  /** Canvases know no custom properties: what they come to is read where CSS uses them. */
  private readColours() {
    const { swatches, frame } = this.parts;
    const { color, borderTopColor } = getComputedStyle(frame);
    return { series: swatches.map((swatch) => getComputedStyle(swatch).color), text: color, line: borderTopColor };
  }

  private options(): uPlot.Options {
    const { spec, columns } = this.parts;
    const axis = { stroke: () => this.colours.text, font: AXIS_FONT, ticks: { show: false } };
    const grid = { stroke: () => this.colours.line, width: 1 };
    return {
      width: Math.max(this.width, 100),
      height: HEIGHT,
      // The last time's label is as wide on both sides of its place.
      padding: [8, 28, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        drag: { x: false, y: false },
        points: { size: 6 },
        bind: {
          ...{ mousedown: UNBOUND, mouseup: UNBOUND, click: UNBOUND, dblclick: UNBOUND },
          ...{ mousemove: UNBOUND, mouseleave: UNBOUND, mouseenter: UNBOUND },
        },
      },
      scales: {
        x: { range: (_plot, _from, to) => [Math.min(columns.at[0] ?? to, to - 60), to] },
        y: { range: (_plot, _from, to) => [0, Math.max(spec.least, (to ?? 0) * 1.08)] },
      },
      axes: [
        { ...axis, grid: { show: false }, space: LABEL_SPACE, size: 24, values: timeLabels },
        {
          ...axis,
          grid,
          size: 52,
          space: 28,
          values: (_plot, ticks) => ticks.map((tick) => shortened(spec.show(tick))),
        },
      ],
      series: [
        {},
        ...spec.series.map(({ label, dashed }, at) => ({
          label,
          stroke: () => this.colours.series[at]!,
          width: 1.5,
          ...(dashed ? { dash: [4, 3] } : {}),
          ...(spec.counts ? { paths: uPlot.paths.stepped!({ align: -1 }) } : {}),
          // A point between two gaps has no line to be seen by.
          points: { size: 3, fill: () => this.colours.series[at]!, filter: alone, show: true },
        })),
      ],
    };
  }
}

function shortened(label: string): string {
  return label.replace(/\.0+(?!\d)/, '');
}

/** Points that are known between two that aren't. */
function alone(plot: uPlot, series: number, show: boolean): number[] | null {
  const values = plot.data[series]!;
  if (!show) return null;
  const found: number[] = [];
  for (let at = 0; at < values.length; at++) {
    if (values[at] != null && values[at - 1] == null && values[at + 1] == null) found.push(at);
  }
  return found;
}

function timeLabels(plot: uPlot, ticks: number[]): string[] {
  // Of less than a few minutes, seconds tell ticks apart.
  const [from, to] = [plot.scales.x?.min ?? 0, plot.scales.x?.max ?? HOUR_S];
  const seconds = to - from < 240;
  return ticks.map((tick) => timeOfDay(tick).slice(0, seconds ? undefined : 5));
}
