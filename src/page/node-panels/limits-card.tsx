import { BUDGET_RANGE, budget, setBudget } from '../budget.ts';
import { percent } from '../format.ts';
import { idleOffered, use, watchUse } from '../limits/idle-watch.ts';
import { limits, setLimits } from '../limits/limits.ts';
import { powerOffered, watchPower } from '../limits/power-watch.ts';
import { SHARE_RANGE } from '../limits/read-limits.ts';
import { joined } from '../node.ts';
import { Check } from './check.tsx';
import { NumberField } from './number-field.tsx';

/** What this page may take of its computer, and when. */
export function LimitsCard() {
  return (
    <section class="card" aria-labelledby="limits-title">
      <h2 id="limits-title">Limits</h2>
      <GpuTime />
      <Memory />
      <Times />
    </section>
  );
}

function GpuTime() {
  const { gpuShare } = limits.value;
  return (
    <div class="field">
      <span class="card-head">
        <label for="gpu-share">Share of GPU time</label>
        <span class="number">{percent(gpuShare)}</span>
      </span>
      <input
        id="gpu-share"
        type="range"
        {...SHARE_RANGE}
        value={Math.round(100 * gpuShare)}
        aria-valuetext={percent(gpuShare)}
        aria-describedby="gpu-share-hint"
        onInput={(event) => setLimits({ gpuShare: event.currentTarget.valueAsNumber / 100 })}
      />
      <p id="gpu-share-hint" class="hint">
        {gpuShare === 1 ? 'Steps follow each other at once.' : 'The GPU rests between steps, and answers take longer.'}
      </p>
    </div>
  );
}

/** Counts from the next join on. */
function Memory() {
  const { kvBytes, maxRunning } = budget.value;
  const { kvMebibytes: mebibytes, maxRunning: running } = BUDGET_RANGE;
  const change = (next: Partial<typeof budget.value>) => setBudget({ ...budget.value, ...next });
  return (
    <fieldset class="fields" disabled={joined.value}>
      <legend class="visually-hidden">Memory</legend>
      <NumberField
        label="Memory for conversations (MiB)"
        value={Math.round(kvBytes / 2 ** 20)}
        {...mebibytes}
        onChange={(value) => change({ kvBytes: value * 2 ** 20 })}
      />
      <NumberField
        label="Sequences at once"
        value={maxRunning}
        {...running}
        onChange={(value) => change({ maxRunning: value })}
      />
      {joined.value && <p class="hint">These two can be changed once the page has left.</p>}
    </fieldset>
  );
}

function Times() {
  const { onlyIdle, onlyPluggedIn } = limits.value;
  return (
    <fieldset class="fields">
      <legend class="visually-hidden">When</legend>
      <Check
        label="Only while nobody uses this computer"
        hint={idleHint()}
        offered={idleOffered}
        checked={onlyIdle}
        onChange={(checked) => {
          setLimits({ onlyIdle: checked });
          if (checked) void watchUse(true);
        }}
      />
      <Check
        label="Only while plugged in"
        hint={powerOffered ? undefined : 'This browser does not tell pages whether the computer runs on battery.'}
        offered={powerOffered}
        checked={onlyPluggedIn}
        onChange={(checked) => {
          setLimits({ onlyPluggedIn: checked });
          if (checked) void watchPower();
        }}
      />
    </fieldset>
  );
}

function idleHint(): string {
  if (!idleOffered) return 'This browser does not tell pages whether the computer is in use.';
  if (limits.value.onlyIdle && use.value === 'silent') {
    return 'The browser does not say it: allow “Your device use” for this page, and tick this again.';
  }
  return 'After a minute without a touch. The browser asks whether this page may know.';
}
