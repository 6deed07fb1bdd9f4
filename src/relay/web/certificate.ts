import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import type { Logger } from 'pino';

export interface Pem {
  readonly cert: string;
  readonly key: string;
}

/** The web port's certificate, with its chain, and its key, as two PEM files. */
export class Certificate {
  /** Told each that is read later. */
  onChange: ((pem: Pem) => void) | undefined;
  private current: Pem;
  private readonly certFile: string;
  private readonly keyFile: string;
  private readonly log: Logger;

  /** Throws RangeError naming the files where they are no certificate and its key, and Node's error of reading. */
  constructor(certFile: string, keyFile: string, log: Logger) {
    this.certFile = certFile;
    this.keyFile = keyFile;
    this.log = log;
    this.current = this.read();
  }

  get pem(): Pem {
    return this.current;
  }

  /** Reads the files again, for connections to come; what can't be used changes nothing. */
  reload(): void {
    try {
      this.current = this.read();
      this.onChange?.(this.current);
      this.log.info({ validTo: new X509Certificate(this.current.cert).validTo }, 'certificate read');
    } catch (error) {
      this.log.error(
        { reason: (error as Error).message },
        'the certificate was not taken: the one before is still used',
      );
    }
  }

  private read(): Pem {
    const pem = { cert: readFileSync(this.certFile, 'utf8'), key: readFileSync(this.keyFile, 'utf8') };
    try {
      // It checks that the two belong together, which a server would find out at its first connection.
      createSecureContext(pem);
    } catch (error) {
      throw new RangeError(
        `${this.certFile} and ${this.keyFile} are no certificate and its key in PEM: ${(error as Error).message}.`,
      );
    }
    return pem;
  }
}
