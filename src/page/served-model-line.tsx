import { useEffect } from 'preact/hooks';
import { askServedModel, servedModel } from './served-model.ts';

/** Which model the relay serves, or why that isn't known. */
export function ServedModelLine() {
  useEffect(() => void askServedModel(), []);
  const served = servedModel.value;
  switch (served.state) {
    case 'loading':
      return (
        <p class="empty" role="status">
          Asking the relay…
        </p>
      );
    case 'known':
      return (
        <p class="empty">
          <span>
            The relay serves <strong>{served.manifest.name}</strong>.
          </span>
        </p>
      );
    case 'unknown':
      return (
        <div class="empty">
          <strong>The relay does not say what it serves.</strong>
          <span role="alert">{served.why}</span>
          <button type="button" onClick={() => void askServedModel()}>
            Try again
          </button>
        </div>
      );
  }
}
