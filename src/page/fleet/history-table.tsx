import { timeOfDay } from '../format.ts';
import { TableFrame } from '../table-frame.tsx';
import type { FleetWatch } from './fleet-watch.ts';
import { count, duration, percent, rate, UNKNOWN } from './format.ts';
import { type Minute, minutesOf } from './minutes.ts';

const COLUMNS: readonly (readonly [string, (minute: Minute) => string])[] = [
  ['Tokens/s', ({ tokensPerSecond }) => rate(tokensPerSecond)],
  ['Running', ({ running }) => count(running)],
  ['Waiting', ({ waiting }) => count(waiting)],
  ['Nodes', ({ nodes }) => count(nodes)],
  ['KV in use', ({ tokenUsage }) => percent(tokenUsage)],
  ['Prefix hits', ({ cacheHitRate }) => percent(cacheHitRate)],
  ['First token', ({ firstToken }) => pair(firstToken)],
  ['Between tokens', ({ betweenTokens }) => pair(betweenTokens)],
  ['Whole request', ({ whole }) => pair(whole)],
  ['Ended', ({ requests }) => count(requests)],
  ['Not complete', ({ aborted }) => count(aborted)],
  ['Failovers', ({ failovers }) => count(failovers)],
  ['Audits passed', ({ auditsPassed }) => count(auditsPassed)],
  ['Audits failed', ({ auditsFailed }) => count(auditsFailed)],
];

/** What the charts show, minute by minute, for who reads rather than sees it. */
export function HistoryTable({ watch }: { watch: FleetWatch }) {
  void watch.revision.value;
  const minutes = minutesOf(watch.columns);
  return (
    <TableFrame label="Table of the last hour">
      <table class="numbers">
        <caption>
          The last hour, minute by minute, the newest first. Counts are of the whole minute; running, waiting, nodes and
          KV are as they were at its end; prefix hits are the mean of its points. Latencies: the mean of p50, and the
          highest p99.
        </caption>
        <thead>
          <tr>
            <th scope="col">Until</th>
            {COLUMNS.map(([name]) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {minutes.map((minute) => (
            <tr key={minute.until}>
              <th scope="row">{timeOfDay(minute.until)}</th>
              {COLUMNS.map(([name, show]) => (
                <td key={name}>{show(minute)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

function pair(latency: Minute['whole']): string {
  return latency ? `${duration(latency.p50)} / ${duration(latency.p99)}` : UNKNOWN;
}
