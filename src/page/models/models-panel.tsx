import { useSignal } from '@preact/signals';
import type { KeptModel } from '../../node/messages.ts';
import { bytes } from '../format.ts';
import { deleteModel, models, room, storeProblem } from './models.ts';

/** The models that this browser keeps: their sizes, when they were used, and a way to delete them. */
export function ModelsPanel() {
  return (
    <section class="card" aria-labelledby="models-title">
      <h2 id="models-title">Models in this browser</h2>
      {storeProblem.value && (
        <p role="alert" class="notice" data-tone="warn">
          {storeProblem.value}
        </p>
      )}
      {models.value?.length === 0 && <p class="hint">None yet. A model stays here once it was loaded.</p>}
      {models.value && models.value.length > 0 && (
        <ul class="plain-list" data-models>
          {models.value.map((model) => (
            <Kept key={model.digest} model={model} />
          ))}
        </ul>
      )}
      <Room />
    </section>
  );
}

function Kept({ model }: { readonly model: KeptModel }) {
  const { digest, name, storedBytes, totalBytes, usedAt, inUse } = model;
  const asks = useSignal(false);
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
            <button type="button" class="danger small" onClick={() => deleteModel(digest)}>
              Delete {bytes(storedBytes)}
            </button>
            <button
              type="button"
              class="small"
              onClick={() => {
                asks.value = false;
              }}
            >
              Keep
            </button>
          </span>
        ) : (
          <button
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
