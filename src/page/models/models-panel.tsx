import { useSignal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { KeptModel } from '../../node/messages.ts';
import { bytes } from '../format.ts';
import { deleteModel, models, room, storeProblem } from './models.ts';

/** The models that this browser keeps: their sizes, when they were used, and a way to delete them. */
export function ModelsPanel() {
  const title = useRef<HTMLHeadingElement>(null);
  return (
    <section class="card" aria-labelledby="models-title">
      <h2 id="models-title" ref={title} tabIndex={-1}>
        Models in this browser
      </h2>
      {storeProblem.value && (
        <p role="alert" class="notice" data-tone="warn">
          {storeProblem.value}
        </p>
      )}
      {models.value?.length === 0 && <p class="hint">None yet. A model stays here once it was loaded.</p>}
      {models.value && models.value.length > 0 && (
        <ul class="plain-list" data-models>
          {models.value.map((model) => (
            <Kept key={model.digest} model={model} onDelete={() => title.current?.focus()} />
          ))}
        </ul>
      )}
      <Room />
    </section>
  );
}

/** The model goes with the button that has the focus: `onDelete` moves it. */
function Kept({ model, onDelete }: { readonly model: KeptModel; readonly onDelete: () => void }) {
  const { digest, name, storedBytes, totalBytes, usedAt, inUse } = model;
  const asks = useSignal(false);
  const [ask, keep] = [useRef<HTMLButtonElement>(null), useRef<HTMLButtonElement>(null)];
  const asked = useRef(false);
  // The button that was pressed is gone, and the focus would be with it.
  useLayoutEffect(() => {
    if (asked.current === asks.value) return;
    asked.current = asks.value;
    (asks.value ? keep : ask).current?.focus();
  }, [asks.value]);
  return (
    <li data-model={name}>
      <div class="card-head">
        <span>
          <strong>{name}</strong>{' '}
          <span class="hint">
            {storedBytes < totalBytes ? `${bytes(storedBytes)} of ${bytes(totalBytes)}` : bytes(totalBytes)}, used{' '}
            {new Date(usedAt).toLocaleString()}
          </span>
        </span>
        {inUse ? (
          <span class="badge" data-tone="busy">
            In use
          </span>
        ) : asks.value ? (
          <span class="buttons">
            <button
              type="button"
              class="danger small"
              aria-label={`Delete ${bytes(storedBytes)} of ${name}`}
              onClick={() => {
                deleteModel(digest);
                onDelete();
              }}
            >
              Delete {bytes(storedBytes)}
            </button>
            <button
              ref={keep}
              type="button"
              class="small"
              aria-label={`Keep ${name}`}
              onClick={() => {
                asks.value = false;
              }}
            >
              Keep
            </button>
          </span>
        ) : (
          <button
            ref={ask}
            type="button"
            class="small"
            aria-label={`Delete ${name}`}
            onClick={() => {
              asks.value = true;
            }}
          >
            Delete…
          </button>
        )}
      </div>
    </li>
  );
}

/** How much the browser lets this site keep. */
function Room() {
  const { quota, usage } = room.value ?? {};
  if (quota === undefined || usage === undefined) return null;
  return (
    <p class="hint">
      {bytes(usage)} in use of the {bytes(quota)} that this browser lets this site keep.
    </p>
  );
}
