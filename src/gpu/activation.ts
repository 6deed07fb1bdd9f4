/** Activations in the order of shaders/activation.wgsl. */
export const ACTIVATIONS = ['silu', 'gelu', 'gelu-tanh', 'relu'] as const;

/** `gelu` is the exact one (erf), `gelu-tanh` its approximation. */
export type Activation = (typeof ACTIVATIONS)[number];
