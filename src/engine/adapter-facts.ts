/** Which GPU an engine runs on, as WebGPU tells it. */
export interface AdapterFacts {
  readonly vendor: string;
  readonly architecture: string;
  readonly description: string;
  /** A software adapter, such as SwiftShader: it works, slowly. */
  readonly fallback: boolean;
}
