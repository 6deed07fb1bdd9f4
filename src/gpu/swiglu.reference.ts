/** silu(gate) × up for [gate, up] one after the other: half the length. */
export function swigluReference(gateUp: Float32Array): Float32Array {
  const columns = gateUp.length / 2;
  return Float32Array.from({ length: columns }, (_, i) => {
    const gate = gateUp[i]!;
    return (gate / (1 + Math.exp(-gate))) * gateUp[columns + i]!;
  });
}
