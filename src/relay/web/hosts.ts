import type { IncomingHttpHeaders } from 'node:http';
import { isIPv4, isIPv6 } from 'node:net';

const HOST = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?$/i;

/**
 * Under which names the web port answers. A name that someone else's DNS server points at this machine is none of them
 * (DNS rebinding); an address can't be pointed elsewhere, and neither can localhost.
 */
export class WebHosts {
  private readonly names: ReadonlySet<string>;

  /** Throws RangeError for what is no host name. */
  constructor(names: readonly string[]) {
    for (const name of names) {
      if (!/^[a-z0-9._-]{1,253}$/i.test(name)) throw new RangeError(`${name} is no host name: give it without a port.`);
    }
    this.names = new Set(names.map((name) => name.toLowerCase()));
  }

  allowsHost(host: string | undefined): boolean {
    const [, v6, name] = HOST.exec(host ?? '') ?? [];
    if (v6 !== undefined) return isIPv6(v6);
    if (name === undefined) return false;
    return isIPv4(name) || name.toLowerCase() === 'localhost' || this.names.has(name.toLowerCase());
  }

  /**
   * Whether a request comes from a page of this port, or from none: a page of another site must not use its visitor's
   * access. A proxy in front may change Host, so an Origin of one of the names will do.
   */
  allowsSource(headers: IncomingHttpHeaders, host: string | undefined): boolean {
    const { origin } = headers;
    const site = headers['sec-fetch-site'];
    if (site !== undefined && site !== 'same-origin' && site !== 'none') return false;
    if (origin === undefined) return true;
    try {
      const from = new URL(origin);
      return from.host === host?.toLowerCase() || this.names.has(from.hostname);
    } catch {
      return false;
    }
  }
}
