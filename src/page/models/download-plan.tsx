import { bytes } from '../format.ts';
import { plan, planProblem } from './models.ts';

/** What a join would download, and how much memory of the GPU it would take. */
export function DownloadPlan() {
  if (planProblem.value) return <p class="hint">What a join takes isn't known yet: {planProblem.value}</p>;
  if (!plan.value) return <p class="hint">Asking the relay what a join takes…</p>;
  const { model, totalBytes, storedBytes, hosts, memory, notKept } = plan.value;
  const missing = totalBytes - storedBytes;
  return (
    <dl class="facts" data-plan={model}>
      <dt>Model</dt>
      <dd>{model}</dd>
      <dt>Download</dt>
      <dd data-plan-download>
        {missing === 0 ? `none: its ${bytes(totalBytes)} are in this browser` : downloadWords(missing, storedBytes)}
        {missing > 0 && hosts.length > 0 && `, from ${hosts.join(', ')}, or else from the relay`}
      </dd>
      {memory && (
        <>
          <dt>GPU memory</dt>
          <dd data-plan-memory={memory.weightBytes + memory.kvBytes + memory.scratchBytes}>
            about {bytes(memory.weightBytes + memory.kvBytes + memory.scratchBytes)}: {bytes(memory.weightBytes)} of
            weights, {bytes(memory.kvBytes)} for conversations, {bytes(memory.scratchBytes)} to compute in
          </dd>
        </>
      )}
      {notKept && (
        <>
          <dt>Not kept</dt>
          <dd data-plan-not-kept>{notKept}. It comes again at each start.</dd>
        </>
      )}
    </dl>
  );
}

function downloadWords(missing: number, stored: number): string {
  return stored === 0 ? `${bytes(missing)}, once` : `${bytes(missing)}; ${bytes(stored)} are in this browser`;
}
