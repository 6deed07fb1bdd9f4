import { isLoopback } from '../limits/address-key.ts';

export interface ExposureSettings {
  readonly webHost: string;
  readonly grpcHost: string;
  readonly hosts: readonly string[];
  readonly allowFrom: readonly string[];
  readonly asksTokens: boolean;
  readonly open: boolean;
  readonly tls: boolean;
}

/** What is worth a word to who starts the relay. Throws RangeError where others could do what nobody allowed them. */
export function exposureOf(settings: ExposureSettings): string[] {
  const { webHost, grpcHost, hosts, allowFrom, asksTokens, open, tls } = settings;
  const warnings: string[] = [];
  // A name other than this machine's own is what a proxy in front goes by: then others come through it.
  const named = hosts.filter((name) => name.toLowerCase() !== 'localhost');
  const where = !isLoopback(webHost) ? `--web-host ${webHost}` : named.length > 0 ? `--host ${named[0]}` : undefined;
  if (open && asksTokens) throw new RangeError('--open lets everybody do everything: give it, or tokens.');
  if (where !== undefined && !asksTokens) {
    if (!open) {
      throw new RangeError(
        `${where} opens the web port to others: give --node-token, --client-token, --operator-token or --token-file, or --open to let everybody do everything.`,
      );
    }
    warnings.push(`Warning: ${where} with --open lets everybody who reaches the web port serve, ask and operate.`);
  }
  if (!isLoopback(webHost) && !tls) {
    warnings.push(
      `Warning: --web-host ${webHost} without --tls-cert sends prompts and tokens in the clear, and browsers on other machines give WebGPU to no such page.`,
    );
  }
  if (!isLoopback(grpcHost)) {
    if (allowFrom.length === 0) {
      throw new RangeError(
        `--grpc-listen ${grpcHost} opens the gRPC port to others, which knows no tokens: name the gateways' addresses with --allow-from.`,
      );
    }
    warnings.push(
      `Warning: the gRPC port is plain text without tokens, and open to all of ${allowFrom.join(', ')}: keep that network private.`,
    );
  }
  return warnings;
}
