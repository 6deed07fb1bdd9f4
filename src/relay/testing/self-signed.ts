import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';

/** DER (X.690): a tag, a length in as few bytes as can be, contents. */
function der(tag: number, ...contents: Uint8Array[]): Buffer {
  const body = Buffer.concat(contents);
  const [high, low] = [Math.floor(body.length / 256), body.length % 256];
  const length = body.length < 128 ? [low] : high === 0 ? [0x81, low] : [0x82, high, low];
  return Buffer.concat([Buffer.of(tag, ...length), body]);
}

const sequence = (...contents: Uint8Array[]) => der(0x30, ...contents);
/** Up to 2049, as RFC 5280 §4.1.2.5 wants it. */
const time = (date: Date) => der(0x17, Buffer.from(date.toISOString().replace(/^..|[-:T]|\.\d+/g, '')));

const ECDSA_WITH_SHA256 = sequence(Buffer.from('06082a8648ce3d040302', 'hex'));
const COMMON_NAME = Buffer.from('0603550403', 'hex');
const SUBJECT_ALT_NAME = Buffer.from('0603551d11', 'hex');

/**
 * A certificate of its own for localhost and 127.0.0.1 (RFC 5280), good for a day: no secret lies in the repository. Node makes
 * none, and openssl is not on every machine.
 */
export function selfSigned(name = 'localhost'): { readonly cert: string; readonly key: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const subject = sequence(der(0x31, sequence(COMMON_NAME, der(0x0c, Buffer.from(name)))));
  const names = sequence(der(0x82, Buffer.from('localhost')), der(0x87, Buffer.of(127, 0, 0, 1)));
  const now = Date.now();
  const body = sequence(
    der(0xa0, der(0x02, Buffer.of(2))),
    der(0x02, Buffer.of(1), randomBytes(15)),
    ECDSA_WITH_SHA256,
    subject,
    sequence(time(new Date(now - 3_600_000)), time(new Date(now + 86_400_000))),
    subject,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(sequence(SUBJECT_ALT_NAME, der(0x04, names)))),
  );
  const signature = sign('sha256', body, privateKey);
  const bytes = sequence(body, ECDSA_WITH_SHA256, der(0x03, Buffer.of(0), signature));
  const lines = bytes.toString('base64').match(/.{1,64}/g)!;
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
  };
}
