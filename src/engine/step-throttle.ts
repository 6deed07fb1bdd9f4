/** Holds an engine's steps back, so that others get some of the GPU's time. */
export interface StepThrottle {
  /** A step may be with the GPU while another runs. */
  readonly overlap: boolean;
  /** Resolves once the next step may start; undefined: at once. Its wait has a bound. */
  turn(): Promise<void> | undefined;
  /** A step ended just now that took so many milliseconds: what others had before its end is no part of it. */
  took(ms: number): void;
}
