import { useState } from 'preact/hooks';
import type { RequestTimeline } from '../../contract/gen/fleet_monitor_pb.ts';
import { TableFrame } from '../table-frame.tsx';
import type { FleetWatch } from './fleet-watch.ts';
import { count, duration } from './format.ts';
import { outcomeWords, type Phase, phasesOf, type RequestPhases, scaleEnd } from './request-phases.ts';

const PHASES: readonly Phase['name'][] = ['queued', 'prefill', 'decode'];

/** The requests of late, a line each: when it was queued, in prefill, in decode, and where it moved. No text of any. */
export function RequestList({ watch }: { watch: FleetWatch }) {
  const [chosen, setChosen] = useState<bigint | undefined>(undefined);
  const listed = watch.requests.value;
  if (!listed) return null;
  const { requests, nowMs, open } = listed;
  const lines = requests.map((request) => ({ request, times: phasesOf(request, nowMs) }));
  const end = scaleEnd(Math.max(0, ...lines.map(({ times }) => times.totalMs)));
  return (
    <section class="card" aria-labelledby="fleet-requests">
      <div class="card-head">
        <h2 id="fleet-requests">
          Requests <span class="quiet">{open > 0 ? `${count(open)} open` : 'none open'}</span>
        </h2>
        <ul class="chart-legend" aria-label="Phases">
          {PHASES.map((word) => (
            <li key={word}>
              <span class="phase-swatch" data-phase={word} aria-hidden="true" />
              {word}
            </li>
          ))}
          <li>
            <span class="phase-swatch" data-phase="move" aria-hidden="true" />
            went to another node
          </li>
        </ul>
      </div>
      {lines.length === 0 ? (
        <p class="quiet small">No request has come since the relay started.</p>
      ) : (
        <TableFrame label="Table of requests">
          <table class="request-table">
            <caption class="visually-hidden">
              Requests, open ones first, the newest first. Press a number for its events.
            </caption>
            <thead>
              <tr>
                <th scope="col">Request</th>
                <th scope="col">Nodes</th>
                <th scope="col" class="number">
                  Tokens
                </th>
                <th scope="col" class="request-time">
                  Time, to {duration(end)}
                </th>
                <th scope="col" class="number">
                  Took
                </th>
                <th scope="col">End</th>
              </tr>
            </thead>
            <tbody>
              {lines.map(({ request, times }) => (
                <Line
                  key={String(request.jobId)}
                  {...{ request, times, end }}
                  open={chosen === request.jobId}
                  onToggle={() => setChosen(chosen === request.jobId ? undefined : request.jobId)}
                />
              ))}
            </tbody>
          </table>
        </TableFrame>
      )}
    </section>
  );
}

interface LineProps {
  readonly request: RequestTimeline;
  readonly times: RequestPhases;
  readonly end: number;
  readonly open: boolean;
  readonly onToggle: () => void;
}

function Line({ request, times, end, open, onToggle }: LineProps) {
  const { jobId, promptTokens, outputTokens, cachedTokens, stays, given, outcome } = request;
  const ranks = stays.map(({ rank }) => rank).join(' → ');
  return (
    <>
      <tr>
        <th scope="row">
          <button type="button" class="sort" aria-expanded={open} onClick={onToggle}>
            <span class="sort-arrow" aria-hidden="true">
              {open ? '▾' : '▸'}
            </span>{' '}
            {String(jobId)}
          </button>
        </th>
        <td class="ranks">
          {ranks || '–'}
          {given > stays.length && ` (${given} in all)`}
        </td>
        <td class="number">
          {count(promptTokens)} + {count(outputTokens)}
        </td>
        <td class="request-time">
          <Bar times={times} end={end} />
        </td>
        <td class="number">{duration(times.totalMs)}</td>
        <td class={times.open || outcome === 'complete' ? undefined : 'problem'}>
          {times.open ? 'open' : outcomeWords(outcome)}
        </td>
      </tr>
      {open && (
        <tr class="request-events">
          <td colSpan={6}>
            <p class="small">
              {request.requestId && <code>{request.requestId}</code>} {count(request.samples)}{' '}
              {request.samples === 1 ? 'sample' : 'samples'}, {count(promptTokens)} prompt tokens
              {cachedTokens !== undefined && `, ${count(cachedTokens)} of them cached`}, {count(outputTokens)} made
            </p>
            <ol>
              {times.events.map(({ atMs, what }) => (
                <li key={`${atMs} ${what}`}>
                  <span class="number">{duration(atMs)}</span> {what}
                </li>
              ))}
            </ol>
          </td>
        </tr>
      )}
    </>
  );
}

function Bar({ times: { phases, moves }, end }: { times: RequestPhases; end: number }) {
  const part = (ms: number) => `${((100 * ms) / end).toFixed(2)}%`;
  const told = phases.map(({ name, fromMs, toMs }) => `${name} ${duration(toMs - fromMs)}`);
  const moved = moves.map(({ atMs, rank }) => `to rank ${rank} after ${duration(atMs)}`);
  return (
    <div class="request-bar" role="img" aria-label={[...told, ...moved].join(', ')}>
      {phases.map(({ name, fromMs, toMs }) => (
        <span key={name} data-phase={name} style={{ left: part(fromMs), width: part(toMs - fromMs) }} />
      ))}
      {moves.map(({ atMs, rank }) => (
        <span key={`${atMs} ${rank}`} data-phase="move" style={{ left: part(atMs) }} />
      ))}
    </div>
  );
}
