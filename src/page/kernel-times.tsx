import type { Profile } from '../node/messages.ts';
import { profile, state, timeKernels } from './node.ts';
import { TableFrame } from './table-frame.tsx';

type Stage = Profile['stages'][number];

/** What the kernels of this node's steps take, as they were timed last: here or by the gateway's StartProfile. */
export function KernelTimes() {
  const timing = profile.value === 'timing';
  return (
    <details class="card">
      <summary>Kernels' times</summary>
      <p>
        <button type="button" onClick={timeKernels} disabled={timing || state.value !== 'serving'}>
          Time the next steps
        </button>{' '}
        {timing && 'Waiting for steps. They are slow while they are timed.'}
      </p>
      {profile.value !== undefined && profile.value !== 'timing' && <Times {...profile.value} />}
    </details>
  );
}

function Times({ stages, problem }: Profile) {
  return (
    <>
      {problem && <p class="problem">Less than was asked for: {problem}.</p>}
      {stages.length === 0 && <p>No step was timed.</p>}
      {stages.map((stage) => (
        <TableFrame key={stage.stage} label={`Kernels' times, ${stepsOf(stage.stage)}`}>
          <StageTimes {...stage} />
        </TableFrame>
      ))}
    </>
  );
}

function stepsOf(stage: Stage['stage']): string {
  return stage === 'all' ? 'All steps' : `Steps of ${stage}`;
}

function StageTimes({ stage, steps, clock, kernels }: Stage) {
  const total = kernels.reduce((sum, { calls, ms }) => sum + calls * ms, 0);
  return (
    <table class="numbers">
      <caption>
        {stepsOf(stage)}: {steps} of them, {total.toFixed(2)} ms in kernels. Each kernel alone, repeated; {clock}.
      </caption>
      <thead>
        <tr>
          {['Kernel', 'Calls a step', 'ms a call', 'ms a step', 'Share', 'GB/s', 'GFLOP/s', 'Repeats'].map((name) => (
            <th key={name} scope="col">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {kernels.map(({ kernel, calls, ms, gbytesPerSecond, gflops, repeats }) => (
          <tr key={kernel}>
            <th scope="row">{kernel}</th>
            <td>{Number(calls.toFixed(1))}</td>
            <td>{ms.toFixed(3)}</td>
            <td>{(calls * ms).toFixed(2)}</td>
            <td>{((100 * calls * ms) / total).toFixed(0)} %</td>
            <td>{gbytesPerSecond?.toFixed(2) ?? '–'}</td>
            <td>{gflops?.toFixed(1) ?? '–'}</td>
            <td>{repeats}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
