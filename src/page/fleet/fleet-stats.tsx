import type { Percentiles } from '../../contract/gen/fleet_monitor_pb.ts';
import type { FleetWatch } from './fleet-watch.ts';
import { count, duration, percent, rate } from './format.ts';
import { meanHitRate, type NodeRow, poolUsage, sumOf } from './node-rows.ts';

/** What the fleet does now, in a few numbers. */
export function FleetStats({ watch, rows }: { watch: FleetWatch; rows: readonly NodeRow[] }) {
  const aggregate = watch.loads.value?.aggregate;
  const serving = watch.loads.value?.dpRankCount;
  return (
    <section class="card" aria-labelledby="fleet-now">
      <h2 id="fleet-now">Now</h2>
      <dl class="stats fleet-stats">
        <Stat name="Nodes serving" value={count(serving)} more={watch.nodes.value && `of ${count(rows.length)}`} />
        <Stat name="Running" value={count(aggregate?.totalRunningReqs)} more="sequences" />
        <Stat name="Queue" value={count(aggregate?.totalWaitingReqs)} more="waiting" />
        <Stat name="Throughput" value={rate(sumOf(rows, 'throughput'))} more="tokens/s" />
        <Stat name="KV in use" value={percent(poolUsage(rows))} />
        <Stat name="Prefix hits" value={percent(meanHitRate(rows))} />
      </dl>
      {watch.history.value && <Counted {...watch.history.value} />}
      {watch.history.value && (
        <p class="quiet small">
          Latencies are p50 of the last minute; requests, failovers and audits are counted since the relay started.
        </p>
      )}
    </section>
  );
}

function Counted({ latencies, totals }: NonNullable<FleetWatch['history']['value']>) {
  return (
    <dl class="stats fleet-stats">
      <Latency name="First token" of={latencies?.firstToken} />
      <Latency name="Between tokens" of={latencies?.betweenTokens} />
      <Latency name="Whole request" of={latencies?.whole} />
      <Stat name="Requests" value={count(totals?.requests)} more={`${count(totals?.aborted)} not complete`} />
      <Stat name="Failovers" value={count(totals?.failovers)} />
      <Stat name="Audits passed" value={count(totals?.auditsPassed)} more={`${count(totals?.auditsFailed)} failed`} />
    </dl>
  );
}

/** Of the last minute. */
function Latency({ name, of }: { name: string; of: Percentiles | undefined }) {
  return <Stat name={name} value={duration(of?.p50)} more={of && `p99 ${duration(of.p99)}`} />;
}

function Stat({ name, value, more }: { name: string; value: string; more?: string | undefined }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
      <dd class="more">{more}</dd>
    </div>
  );
}
