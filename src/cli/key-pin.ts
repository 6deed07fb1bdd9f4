import { createHash, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';

/**
 * SHA-256 of a certificate's public key, as Chromium pins one: its own relay's browser comes to it by an address, of which the
 * certificate says nothing, and takes that key's certificate and no other.
 */
export function keyPin(certFile: string): string {
  const { publicKey } = new X509Certificate(readFileSync(certFile));
  return createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('base64');
}
