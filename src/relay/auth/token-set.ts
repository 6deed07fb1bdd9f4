import { createHash, timingSafeEqual } from 'node:crypto';
import type { Role } from './roles.ts';

/** One token, as a flag, the environment or a file gives it. */
export interface RoleToken {
  readonly role: Role;
  readonly token: string;
}

/** What is kept of a token: nobody can use it, and its first digits name it in a log. */
export interface TokenHash {
  readonly role: Role;
  readonly sha256: Buffer;
}

/** Of RFC 6750's b64token, so that it goes into a header and a URL's fragment as it is; of 16 characters nobody guesses one. */
const TOKEN = /^[A-Za-z0-9._~+/-]{16,256}=*$/;

export function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

/** The tokens that count just now, as hashes. */
export class TokenSet {
  readonly all: readonly TokenHash[];

  /** Throws RangeError, which never has a token in it. */
  constructor(tokens: readonly RoleToken[]) {
    const roles = new Map<string, Role>();
    for (const { role, token } of tokens) {
      if (!TOKEN.test(token)) {
        throw new RangeError(`a ${role} token must be 16 to 256 letters, digits or ._~+/- and = at its end.`);
      }
      const before = roles.get(token);
      if (before !== undefined && before !== role) {
        throw new RangeError(`the ${before} and the ${role} role have the same token: each needs its own.`);
      }
      roles.set(token, role);
    }
    this.all = [...roles].map(([token, role]) => ({ role, sha256: hashOf(token) }));
  }

  /** Takes the same time whether a token is right, nearly right or wrong: whole hashes are compared, all of them. */
  find(token: string): TokenHash | undefined {
    const sha256 = hashOf(token);
    let found: TokenHash | undefined;
    for (const one of this.all) {
      if (timingSafeEqual(one.sha256, sha256)) found = one;
    }
    return found;
  }

  has({ role, sha256 }: TokenHash): boolean {
    return this.all.some((one) => one.role === role && timingSafeEqual(one.sha256, sha256));
  }
}
