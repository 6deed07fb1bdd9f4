import type { Logger } from 'pino';
import { AllowFrom } from './allow-from.ts';
import { WebAccess } from './auth/access.ts';
import { exposureOf } from './auth/exposure.ts';
import { isLoopback } from './limits/address-key.ts';
import { ConnectionCount } from './limits/connection-count.ts';
import { type Limit, RequestLimiter } from './limits/request-limiter.ts';
import type { RelayOptions, RelaySettings } from './options.ts';
import { Certificate } from './web/certificate.ts';
import { WebHosts } from './web/hosts.ts';

/** Of the web port. */
const WEB_CONNECTIONS = { most: 10_000, reserved: 1_000 } as const;

/** Who may reach what, under which names, and how much of it. */
export interface Trust {
  readonly access: WebAccess;
  readonly allowFrom: AllowFrom;
  readonly hosts: WebHosts;
  readonly certificate: Certificate | undefined;
  readonly connections: ConnectionCount;
  readonly limiter: RequestLimiter;
  readonly limits: { readonly node: Limit; readonly client: Limit; readonly host: Limit };
  readonly boundsHost: (address: string) => boolean;
}

/** Sets it up from the options, and warns of what is open. Throws RangeError for what makes no sense or opens too much. */
export function openTrust(options: RelayOptions, settings: RelaySettings, log: Logger): Trust {
  const { tokens = [], tokenFile, hosts = [], allowFrom = [], open = false, tlsCert, tlsKey } = options;
  if ((tlsCert === undefined) !== (tlsKey === undefined)) {
    throw new RangeError('--tls-cert and --tls-key belong together: give both.');
  }
  const warnings = exposureOf({
    webHost: settings.webHost,
    grpcHost: settings.grpcHost,
    hosts,
    allowFrom,
    asksTokens: tokens.length > 0 || tokenFile !== undefined,
    open,
    tls: tlsCert !== undefined,
  });
  const warn = options.onProgress ?? ((line: string) => log.warn(line));
  for (const line of warnings) warn(line);
  // Behind a proxy on this machine all others have its address.
  const boundsHost = (address: string) => !isLoopback(address);
  return {
    allowFrom: new AllowFrom(allowFrom),
    hosts: new WebHosts(hosts),
    certificate: tlsCert === undefined ? undefined : new Certificate(tlsCert, tlsKey!, log),
    connections: new ConnectionCount({ ofHost: settings.hostConnections, ...WEB_CONNECTIONS }),
    limiter: new RequestLimiter(settings.readMaxBytes),
    limits: {
      node: { rate: settings.nodeRate, inFlight: settings.nodeInFlight, bytes: settings.nodeBytes },
      client: { rate: settings.clientRate, inFlight: settings.clientInFlight, bytes: settings.clientBytes },
      host: { rate: settings.hostRate, inFlight: settings.hostInFlight, bytes: settings.hostBytes },
    },
    boundsHost,
    access: new WebAccess({ tokens, tokenFile, sessionMs: settings.sessionMs }, log),
  };
}
