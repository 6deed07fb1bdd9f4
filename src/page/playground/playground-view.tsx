import { ServedModelLine } from '../served-model-line.tsx';

export function PlaygroundView() {
  return (
    <section aria-labelledby="playground-title">
      <div class="view-head">
        <h1 id="playground-title">Playground</h1>
      </div>
      <ServedModelLine />
    </section>
  );
}
