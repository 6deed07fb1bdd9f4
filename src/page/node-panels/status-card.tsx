import { bytes, duration } from '../format.ts';
import { TestProgress } from '../kernel-view.tsx';
import { hold } from '../limits/hold.ts';
import { DownloadPlan } from '../models/download-plan.tsx';
import { detail, join, joined, leave, pause, paused, progress, rate, state, takeOver } from '../node.ts';
import { PAUSED_WORDS, STATE_NAMES, STATE_WORDS, TONES } from '../state-words.ts';
import { webgpuHelp } from '../webgpu-help.ts';

/** What the node does, in words, and what its user may do with it. */
export function StatusCard() {
  const help = webgpuHelp();
  const held = state.value === 'serving' ? (paused.value ? PAUSED_WORDS : heldWords()) : undefined;
  return (
    <section class="card" aria-labelledby="status-title">
      <div class="card-head">
        <h2 id="status-title">Status</h2>
        <span class="badge" data-tone={held === undefined ? TONES[state.value] : 'warn'}>
          {held === undefined ? STATE_NAMES[state.value] : paused.value ? 'Paused' : 'Holding off'}
        </span>
      </div>
      <p role="status">{held ?? STATE_WORDS[state.value]}</p>
      {help && <Problem text={help} />}
      {detail.value && <Problem text={detail.value} />}
      {state.value === 'loading' && <TestProgress />}
      {state.value === 'loading' && <Download />}
      {!help && !joined.value && <DownloadPlan />}
      {!help && <Buttons />}
    </section>
  );
}

function heldWords(): string | undefined {
  return hold.value && `Holding off: ${hold.value}. What runs goes on to its end.`;
}

function Problem({ text }: { readonly text: string }) {
  return (
    <p role="alert" class="notice" data-tone={state.value === 'loading' || state.value === 'left' ? 'warn' : 'bad'}>
      {text}
    </p>
  );
}

function Buttons() {
  if (!joined.value) {
    return (
      <div class="buttons">
        <button type="button" class="primary large" onClick={() => void join()}>
          Join
        </button>
      </div>
    );
  }
  if (state.value === 'waiting') {
    return (
      <>
        <p class="small quiet">
          Over plain http a browser opens six connections to a relay, for all its tabs together. Over https any number
          of tabs serves.
        </p>
        <div class="buttons">
          <button type="button" class="primary" onClick={takeOver}>
            Take over
          </button>
          <button type="button" onClick={leave}>
            Leave
          </button>
        </div>
      </>
    );
  }
  const leaving = state.value === 'leaving';
  return (
    <div class="buttons">
      <button type="button" onClick={() => pause(!paused.value)} disabled={leaving}>
        {paused.value ? 'Resume' : 'Pause'}
      </button>
      <button type="button" onClick={leave} disabled={leaving}>
        Leave
      </button>
    </div>
  );
}

/** How much of the model is here, how fast it comes, and how long it will take. */
function Download() {
  if (!progress.value) return null;
  const { loadedBytes, totalBytes, byOtherTab } = progress.value;
  const perSecond = rate.value;
  return (
    <div class="progress-line">
      <progress value={loadedBytes} max={totalBytes} aria-label="Model download" />
      <p class="small quiet number">
        {bytes(loadedBytes)} of {bytes(totalBytes)}
        {perSecond !== undefined && ` · ${bytes(perSecond)}/s`}
        {perSecond !== undefined && perSecond > 0 && loadedBytes < totalBytes && (
          <> · {duration((1000 * (totalBytes - loadedBytes)) / perSecond)} left</>
        )}
      </p>
      {byOtherTab && <p class="small quiet">Another tab of this browser downloads it, and this one waits for that.</p>}
    </div>
  );
}
