import { facts, joined, state, testing, testKernelsAgain } from './node.ts';

const FROM_WORDS = { off: 'not tested', kept: 'tested at an earlier start', tested: 'tested at this start' } as const;

/** How far the self-test is. */
export function TestProgress() {
  if (!testing.value) return null;
  const { done, total } = testing.value;
  return (
    <div class="progress-line" data-testing>
      <progress value={done} max={total} aria-label="Test of kernels" />
      <p class="small quiet number">
        Testing kernels: {done} of {total}
      </p>
    </div>
  );
}

/** What the self-test came to, and a button that has it run again. */
export function KernelTest() {
  if (!facts.value) return null;
  const { from, precision, passed, untested, failed } = facts.value.kernels;
  return (
    <>
      <dl class="facts">
        <dt>Kernels</dt>
        <dd data-kernels={from}>
          {FROM_WORDS[from]}
          {from !== 'off' && `: ${passed} variants passed, ${failed.length} failed`}
          {untested > 0 && `; ${untested} wait for a later start, and aren’t used before`}
          {precision === 'fast' && '; fast, of less precision'}
        </dd>
      </dl>
      {failed.length > 0 && (
        <ul aria-label="Kernels that are not used">
          {failed.map(({ name, why }) => (
            <li key={name}>
              {name}: {why}
            </li>
          ))}
        </ul>
      )}
      {(state.value === 'serving' || !joined.value) && (
        <button type="button" onClick={testKernelsAgain}>
          Test kernels again
        </button>
      )}
    </>
  );
}
