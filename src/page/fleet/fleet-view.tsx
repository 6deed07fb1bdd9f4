import { ServedModelLine } from '../served-model-line.tsx';

export function FleetView() {
  return (
    <section aria-labelledby="fleet-title">
      <div class="view-head">
        <h1 id="fleet-title">Fleet</h1>
      </div>
      <ServedModelLine />
    </section>
  );
}
