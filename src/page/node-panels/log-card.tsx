import { timeOfDay } from '../format.ts';
import { nodeLog } from '../node-log.ts';

/** What happened last, the newest first. */
export function LogCard() {
  if (nodeLog.value.length === 0) return null;
  return (
    <section class="card" aria-labelledby="log-title">
      <h2 id="log-title">Log</h2>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: keys scroll only what has the focus */}
      <ol class="log" tabIndex={0} aria-labelledby="log-title">
        {nodeLog.value.map(({ id, at, text, tone, times }) => (
          <li key={id}>
            <time dateTime={new Date(at).toISOString()}>{timeOfDay(at / 1_000)}</time>
            <span data-tone={tone}>
              {text}
              {times > 1 && ` (${times} times)`}
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}
