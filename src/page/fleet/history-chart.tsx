import { useSignalEffect } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { timeOfDay } from '../format.ts';
import { theme } from '../shell/theme.ts';
import { cursor, moveCursor } from './chart-cursor.ts';
import { ChartPlot } from './chart-plot.ts';
import type { ChartSpec } from './chart-specs.ts';
import type { FleetWatch } from './fleet-watch.ts';
import type { HistoryColumns } from './history-columns.ts';

/** Redraws for a new size follow each other no closer. */
const RESIZE_MS = 500;

interface ChartProps {
  readonly spec: ChartSpec;
  readonly watch: FleetWatch;
}

/**
 * One chart with its legend, which reads out the moment under the pointer, else the last. With the keyboard it is a slider
 * over the points.
 */
export function HistoryChart({ spec, watch }: ChartProps) {
  const frame = useRef<HTMLDivElement>(null);
  const legend = useRef<HTMLUListElement>(null);
  const plot = useRef<ChartPlot | undefined>(undefined);
  const { columns, revision } = watch;

  useEffect(() => {
    const swatches = [...legend.current!.querySelectorAll<HTMLElement>('.swatch')];
    const made = new ChartPlot({ spec, columns, swatches, frame: frame.current! });
    plot.current = made;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const observer = new ResizeObserver(() => {
      timer ??= setTimeout(() => {
        timer = undefined;
        made.fit();
      }, RESIZE_MS);
    });
    observer.observe(frame.current!);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const repaint = () => made.repaint();
    dark.addEventListener('change', repaint);
    return () => {
      dark.removeEventListener('change', repaint);
      observer.disconnect();
      clearTimeout(timer);
      made.destroy();
      plot.current = undefined;
    };
  }, [spec, columns]);
  useSignalEffect(() => {
    void revision.value;
    plot.current?.refresh();
    // Its moment lies elsewhere on the new scale.
    plot.current?.point(cursor.peek());
  });
  useSignalEffect(() => plot.current?.point(cursor.value));
  useSignalEffect(() => {
    void theme.value;
    // Once the page has its new colours.
    const asked = requestAnimationFrame(() => plot.current?.repaint());
    return () => cancelAnimationFrame(asked);
  });

  return (
    <figure class="chart">
      <figcaption>
        <h3>
          {spec.title} <span class="quiet">{spec.unit}</span>
        </h3>
        <ul ref={legend} class="chart-legend">
          {spec.series.map(({ label, colour, column, dashed }) => (
            <li key={label}>
              <span class="swatch" data-colour={colour} data-dashed={dashed} aria-hidden="true" />
              {label}
              <Readout watch={watch} read={(at) => spec.show(columns.column(column)[at] ?? undefined)} />
            </li>
          ))}
        </ul>
      </figcaption>
      <Slider spec={spec} watch={watch}>
        <div
          ref={frame}
          class="chart-frame"
          onPointerMove={(event) => moveCursor(plot.current?.nearest(event.clientX))}
          onPointerLeave={() => moveCursor(undefined)}
        />
      </Slider>
    </figure>
  );
}

/** The point that is read out; −1: there is none. */
function indexOf(columns: HistoryColumns): number {
  return Math.min(cursor.value ?? columns.length, columns.length - 1);
}

function Readout({ watch, read }: { watch: FleetWatch; read: (index: number) => string }) {
  void watch.revision.value;
  const at = indexOf(watch.columns);
  return <b>{at < 0 ? '' : read(at)}</b>;
}

const STEPS: Readonly<Record<string, number>> = {
  ...{ ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: 12, PageDown: -12 },
  ...{ Home: Number.NEGATIVE_INFINITY, End: Number.POSITIVE_INFINITY },
};

function Slider({ spec, watch, children }: ChartProps & { children: preact.ComponentChildren }) {
  void watch.revision.value;
  const { columns } = watch;
  const at = indexOf(columns);
  const read = () => {
    const values = spec.series.map(
      ({ label, column }) => `${label} ${spec.show(columns.column(column)[at] ?? undefined)}`,
    );
    return `${timeOfDay(columns.at[at]!)}: ${values.join(', ')}`;
  };
  return (
    <div
      class="chart-slider"
      role="slider"
      tabIndex={0}
      aria-label={`${spec.title}, ${spec.unit}: moment`}
      aria-valuemin={0}
      aria-valuemax={Math.max(0, columns.length - 1)}
      aria-valuenow={Math.max(0, at)}
      aria-valuetext={at < 0 ? 'no history yet' : read()}
      onKeyDown={(event) => {
        const step = STEPS[event.key];
        if (step === undefined || columns.length === 0) return;
        event.preventDefault();
        moveCursor(Math.min(columns.length - 1, Math.max(0, at + step)));
      }}
      onBlur={() => moveCursor(undefined)}
    >
      {children}
    </div>
  );
}
