import 'uplot/dist/uPlot.min.css';
import { CHARTS } from './chart-specs.ts';
import type { FleetWatch } from './fleet-watch.ts';
import { HistoryChart } from './history-chart.tsx';

/** The relay's last hour; all charts read out the same moment. */
export function ChartGrid({ watch }: { watch: FleetWatch }) {
  return (
    <div class="chart-grid">
      {CHARTS.map((spec) => (
        <HistoryChart key={spec.name} spec={spec} watch={watch} />
      ))}
    </div>
  );
}
