import { BUDGET_RANGE, budget, setBudget } from './budget.ts';
import { KernelTimes } from './kernel-times.tsx';
import { KernelTest, TestProgress } from './kernel-view.tsx';
import { counters, detail, facts, join, joined, leave, pause, paused, progress, rank, state } from './node.ts';
import { PAUSED_WORDS, STATE_WORDS, TONES } from './state-words.ts';
import { webgpuHelp } from './webgpu-help.ts';

/** This page's own node: join and leave, its state in words, its counters. */
export function NodeView() {
  const help = webgpuHelp();
  return (
    <section aria-labelledby="node-title">
      <div class="view-head">
        <div>
          <h1 id="node-title">Node</h1>
          <p>Lend this browser's GPU to serve a language model.</p>
        </div>
      </div>
      {help ? (
        <p role="alert" class="notice" data-tone="bad">
          {help}
        </p>
      ) : (
        <JoinButton />
      )}
      <p role="status" data-tone={TONES[state.value]}>
        {paused.value && state.value === 'serving' ? PAUSED_WORDS : STATE_WORDS[state.value]}
      </p>
      {detail.value && (
        <p role="alert" class="notice" data-tone="bad">
          {detail.value}
        </p>
      )}
      {state.value === 'loading' && <TestProgress />}
      {state.value === 'loading' && <Progress />}
      {!joined.value && !help && <Budget />}
      <Facts />
      <KernelTest />
      <Counters />
      {joined.value && <KernelTimes />}
    </section>
  );
}

function JoinButton() {
  return joined.value ? (
    <>
      <button type="button" onClick={leave} disabled={state.value === 'leaving'}>
        Leave
      </button>{' '}
      <button type="button" onClick={() => pause(!paused.value)} disabled={state.value === 'leaving'}>
        {paused.value ? 'Resume' : 'Pause'}
      </button>
    </>
  ) : (
    <button type="button" class="primary" onClick={() => void join()}>
      Join
    </button>
  );
}

/** How much to lend; counts from the next join on. */
function Budget() {
  const { kvBytes, maxRunning } = budget.value;
  const { kvMebibytes: mebibytes, maxRunning: running } = BUDGET_RANGE;
  const change = (next: Partial<typeof budget.value>) => setBudget({ ...budget.value, ...next });
  return (
    <fieldset>
      <legend>What this page may take</legend>
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
    </fieldset>
  );
}

function NumberField(props: {
  readonly label: string;
  readonly value: number;
  readonly min: number;
  readonly max: number;
  readonly onChange: (value: number) => void;
}) {
  const { label, value, min, max, onChange } = props;
  return (
    <label class="field row">
      {label}{' '}
      <input
        type="number"
        min={min}
        max={max}
        step={1}
        required
        value={value}
        onChange={(event) => {
          const { valueAsNumber, validity } = event.currentTarget;
          if (validity.valid) onChange(valueAsNumber);
          else event.currentTarget.reportValidity();
        }}
      />
    </label>
  );
}

function Progress() {
  if (!progress.value) return null;
  const { loadedBytes, totalBytes } = progress.value;
  return (
    <p>
      <progress value={loadedBytes} max={totalBytes} aria-label="Model download" /> {megabytes(loadedBytes)} of{' '}
      {megabytes(totalBytes)}
    </p>
  );
}

function Facts() {
  if (!facts.value) return null;
  const { model, adapter, features, contextLength, poolTokens } = facts.value;
  const name = adapter.description || [adapter.vendor, adapter.architecture].filter(Boolean).join(' ') || 'unnamed';
  return (
    <dl class="facts">
      <dt>Model</dt>
      <dd>{model}</dd>
      <dt>Adapter</dt>
      <dd>
        {name}
        {adapter.fallback && ' (a software adapter: it works, but slowly)'}
      </dd>
      <dt>Context</dt>
      <dd>
        {contextLength} tokens a sequence, {poolTokens} in all
      </dd>
      {features.length > 0 && (
        <>
          <dt>Features</dt>
          <dd>{features.join(', ')}</dd>
        </>
      )}
    </dl>
  );
}

function Counters() {
  if (!counters.value) return null;
  const { genThroughput, tokensMade, running, waiting, usedTokens, maxTokens, cachedTokens, gpuBytes, kvBytes } =
    counters.value;
  const { cacheHitRate } = counters.value;
  return (
    <dl class="facts">
      {rank.value !== undefined && (
        <>
          <dt>Rank</dt>
          <dd>{rank.value}</dd>
        </>
      )}
      <dt>Speed</dt>
      <dd data-counter="speed">{genThroughput.toFixed(1)} tokens/s</dd>
      <dt>Tokens made</dt>
      <dd data-counter="tokens">{tokensMade}</dd>
      <dt>Sequences</dt>
      <dd>
        {running} running, {waiting} waiting
      </dd>
      <dt>KV cache</dt>
      <dd>
        {usedTokens} of {maxTokens} tokens in use, {cachedTokens} hold prefixes ({megabytes(kvBytes)})
      </dd>
      {cacheHitRate !== undefined && (
        <>
          <dt>Prefix cache</dt>
          <dd>{(100 * cacheHitRate).toFixed(0)} % of the last prompts' tokens found</dd>
        </>
      )}
      <dt>GPU memory</dt>
      <dd>{megabytes(gpuBytes)}</dd>
    </dl>
  );
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
