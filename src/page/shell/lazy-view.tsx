import { signal } from '@preact/signals';
import type { ComponentType } from 'preact';

/** A view whose script comes when it is opened first; says so meanwhile, and offers another try where it does not come. */
export function lazyView(title: string, load: () => Promise<ComponentType>): ComponentType {
  const view = signal<ComponentType | undefined>(undefined);
  const problem = signal<string | undefined>(undefined);
  let loading = false;
  const start = () => {
    if (loading || view.value) return;
    loading = true;
    problem.value = undefined;
    load()
      .then(
        (loaded) => {
          view.value = loaded;
        },
        (error: Error) => {
          problem.value = error.message;
        },
      )
      .finally(() => {
        loading = false;
      });
  };
  return function LazyView() {
    const View = view.value;
    if (View) return <View />;
    if (problem.value === undefined) start();
    return (
      <>
        <div class="view-head">
          <h1>{title}</h1>
        </div>
        {problem.value === undefined ? (
          <p class="empty" role="status">
            Loading this view…
          </p>
        ) : (
          <div class="empty">
            <strong>This view did not load.</strong>
            <span role="alert">{problem.value}</span>
            <button type="button" onClick={start}>
              Try again
            </button>
          </div>
        )}
      </>
    );
  };
}
