import { useState } from 'preact/hooks';
import { Node_State } from '../../contract/gen/fleet_monitor_pb.ts';
import { TableFrame } from '../table-frame.tsx';
import { age, count, percent, rate, UNKNOWN } from './format.ts';
import { type NodeRow, type Sorting, type SortKey, STATES, sortedRows } from './node-rows.ts';

/** Rows before all are asked for. */
const FIRST_ROWS = 100;
/** A node that serves and was not heard for so long is late. */
const LATE_MS = 10_000;

interface Column {
  readonly key: SortKey;
  readonly name: string;
  readonly number: boolean;
  /** What an operator sees only. */
  readonly listed?: boolean;
  /** The way its first click sorts. */
  readonly descending?: boolean;
}

const COLUMNS: readonly Column[] = [
  { key: 'rank', name: 'Rank', number: false },
  { key: 'nodeId', name: 'Node', number: false, listed: true },
  { key: 'state', name: 'Health', number: false },
  { key: 'form', name: 'Model', number: false, listed: true },
  { key: 'running', name: 'Running', number: true, descending: true },
  { key: 'waiting', name: 'Waiting', number: true, descending: true },
  { key: 'speed', name: 'Speed', number: true, listed: true, descending: true },
  { key: 'throughput', name: 'Tokens/s', number: true, descending: true },
  { key: 'usage', name: 'KV', number: true, descending: true },
  { key: 'hitRate', name: 'Hits', number: true, descending: true },
  { key: 'tokens', name: 'Tokens', number: true, listed: true, descending: true },
  { key: 'attachedMs', name: 'Up', number: true, listed: true, descending: true },
];

export interface NodeTableProps {
  readonly rows: readonly NodeRow[];
  /** As clients know it. */
  readonly model: string | undefined;
  /** Whether the viewer sees more of a node than its load. */
  readonly listed: boolean;
}

/** The fleet's nodes, a line each; a column's head sorts by it, and the other way when it is pressed again. */
export function NodeTable({ rows, model, listed }: NodeTableProps) {
  const [sorting, setSorting] = useState<Sorting>({ key: 'rank', descending: false });
  const [all, setAll] = useState(false);
  const sorted = sortedRows(rows, sorting);
  const shown = all ? sorted : sorted.slice(0, FIRST_ROWS);
  const columns = COLUMNS.filter((column) => listed || !column.listed);
  return (
    <>
      <TableFrame label="Table of nodes">
        <table class="node-table">
          <caption class="visually-hidden">
            Nodes. Press a column's head to sort by it. Speed is tokens a second of one sample, as the relay counts it;
            KV the part of its KV slots in use; hits the part of prompts found in its prefix cache; up how long it has
            been here.
          </caption>
          <thead>
            <tr>
              {columns.map((column) => (
                <Head key={column.key} column={column} sorting={sorting} onSort={setSorting} />
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => (
              <Line key={row.rank} row={row} model={model} listed={listed} />
            ))}
          </tbody>
        </table>
      </TableFrame>
      {shown.length < rows.length && (
        <div class="buttons">
          <button type="button" class="small" onClick={() => setAll(true)}>
            Show all {count(rows.length)}
          </button>
        </div>
      )}
    </>
  );
}

interface HeadProps {
  readonly column: Column;
  readonly sorting: Sorting;
  readonly onSort: (sorting: Sorting) => void;
}

function Head({ column, sorting, onSort }: HeadProps) {
  const { key, name, number, descending: first = false } = column;
  const chosen = sorting.key === key;
  const descending = chosen ? !sorting.descending : first;
  return (
    <th
      scope="col"
      class={number ? 'number' : undefined}
      aria-sort={chosen ? (sorting.descending ? 'descending' : 'ascending') : undefined}
    >
      <button type="button" class="sort" onClick={() => onSort({ key, descending })}>
        {name}
        <span class="sort-arrow" aria-hidden="true">
          {chosen ? (sorting.descending ? '↓' : '↑') : ''}
        </span>
      </button>
    </th>
  );
}

interface LineProps {
  readonly row: NodeRow;
  readonly model: string | undefined;
  readonly listed: boolean;
}

function Line({ row, model, listed }: LineProps) {
  return (
    <tr>
      <th scope="row">{row.rank}</th>
      {listed && (
        <td>
          <span class="node-id">{row.nodeId}</span>
          <small>
            {row.adapter ?? 'adapter not told'}
            {row.software && ', software'}
          </small>
        </td>
      )}
      <td>
        <Health row={row} />
      </td>
      {listed && (
        <td>
          {model}
          <small>{row.form}</small>
        </td>
      )}
      <td class="number">
        {count(row.running)} <small>of {count(row.maxRunning)}</small>
      </td>
      <td class="number">{count(row.waiting)}</td>
      {listed && <td class="number">{rate(row.speed)}</td>}
      <td class="number">{rate(row.throughput)}</td>
      <td class="number">{percent(row.usage)}</td>
      <td class="number">{percent(row.hitRate)}</td>
      {listed && <td class="number">{count(row.tokens)}</td>}
      {listed && <td class="number">{row.attachedMs === undefined ? UNKNOWN : age(row.attachedMs)}</td>}
    </tr>
  );
}

function Health({ row }: { row: NodeRow }) {
  const { word, tone } = STATES[row.state];
  const late = row.heardMs !== undefined && row.heardMs > LATE_MS && row.state === Node_State.SERVING;
  const notes = [
    late && `not heard for ${age(row.heardMs!)}`,
    row.hidden && 'hidden tab',
    row.losses !== undefined && row.losses >= 0.5 && `${count(row.losses)} lost of late`,
    row.trusted && "operator's",
  ].filter(Boolean);
  return (
    <>
      <span class="badge" data-tone={late ? 'warn' : tone}>
        {word}
      </span>
      {notes.length > 0 && <small>{notes.join(', ')}</small>}
    </>
  );
}
