import { randomBytes } from 'node:crypto';
import { Code, ConnectError } from '@connectrpc/connect';
import type { Principal } from './principal.ts';
import { hashOf, type TokenHash, type TokenSet } from './token-set.ts';

/** How long a session lives that nothing is asked with, in milliseconds. */
export const SESSION_MS = 15 * 60_000;
/** Sessions of one token at one address; of those under which nothing is open, the longest quiet one makes room. */
export const MAX_OF_ADDRESS = 256;
/** Of one token at all addresses: who holds one can't take the others' room. */
export const MAX_OF_TOKEN = 4_096;
const MAX_IN_ALL = 16_384;
const SWEEP_MS = 30_000;

/** What a token was exchanged for: it counts for its role, as long as it is used and its token counts. */
export interface Session extends Principal {
  readonly parent: TokenHash;
  readonly end: AbortController;
  expiresAt: number;
  /** Streams that are open under it: they keep it alive. */
  open: number;
}

export interface GivenSession {
  readonly token: string;
  readonly expiresInMs: number;
}

/** All sessions, by the hash of their secret. */
export class Sessions {
  private readonly byHash = new Map<string, Session>();
  /** Hashes by token and address, the least lately used first. */
  private readonly groups = new Map<string, Set<string>>();
  /** How many of each token. */
  private readonly ofToken = new Map<string, number>();
  private readonly lifeMs: number;
  private readonly now: () => number;
  private readonly sweeper: NodeJS.Timeout;
  private lastKey = 0;

  constructor(lifeMs: number = SESSION_MS, now: () => number = () => performance.now()) {
    this.lifeMs = lifeMs;
    this.now = now;
    this.sweeper = setInterval(() => this.sweep(), SWEEP_MS).unref();
  }

  get count(): number {
    return this.byHash.size;
  }

  /**
   * Opens one. `bounded`: the address is one host's, and may have so many and no more. Throws ConnectError
   * (RESOURCE_EXHAUSTED) where there are too many.
   */
  open(parent: TokenHash, address: string, bounded = true): GivenSession {
    const group = this.groupWithRoom(parent, address, bounded);
    const token = randomBytes(32).toString('base64url');
    const hash = keyOf(token);
    const end = new AbortController();
    group.add(hash);
    this.recount(parent, 1);
    const session: Session = {
      role: parent.role,
      key: `session ${++this.lastKey}`,
      ended: end.signal,
      parent,
      address,
      end,
      expiresAt: this.now() + this.lifeMs,
      open: 0,
      hold: () => {
        session.open++;
        return () => {
          session.open--;
          session.expiresAt = this.now() + this.lifeMs;
        };
      },
    };
    this.byHash.set(hash, session);
    return { token, expiresInMs: this.lifeMs };
  }

  /** The session of a secret, renewed by that; undefined where there is none, or it is over. */
  use(token: string): Session | undefined {
    const key = keyOf(token);
    const session = this.byHash.get(key);
    if (!session) return undefined;
    if (this.isOver(session)) {
      this.finish(key, session, 'The session is over.');
      return undefined;
    }
    session.expiresAt = this.now() + this.lifeMs;
    const group = this.groups.get(groupOf(session));
    group?.delete(key);
    group?.add(key);
    return session;
  }

  /** Ends what tokens that count no more were exchanged for, and what runs under it. */
  keepOnly(tokens: TokenSet): number {
    let ended = 0;
    for (const [key, session] of this.byHash) {
      if (tokens.has(session.parent)) continue;
      this.finish(key, session, 'The token was revoked.');
      ended++;
    }
    return ended;
  }

  close(): void {
    clearInterval(this.sweeper);
    this.byHash.clear();
    this.groups.clear();
    this.ofToken.clear();
  }

  private recount(parent: TokenHash, change: 1 | -1): void {
    const key = tokenKey(parent);
    const count = (this.ofToken.get(key) ?? 0) + change;
    if (count === 0) this.ofToken.delete(key);
    else this.ofToken.set(key, count);
  }

  private groupWithRoom(parent: TokenHash, address: string, bounded: boolean): Set<string> {
    const name = groupOf({ parent, address });
    if (this.byHash.size >= MAX_IN_ALL) this.sweep();
    if (this.byHash.size >= MAX_IN_ALL) throw new ConnectError('Too many sessions.', Code.ResourceExhausted);
    const group = this.groups.get(name);
    const fullHere = bounded && (group?.size ?? 0) >= MAX_OF_ADDRESS;
    if (fullHere || (this.ofToken.get(tokenKey(parent)) ?? 0) >= MAX_OF_TOKEN) {
      const why = `Too many sessions of this token${fullHere ? ' at one address' : ''}.`;
      const quiet = [...(group ?? [])].find((key) => this.byHash.get(key)?.open === 0);
      if (quiet === undefined) throw new ConnectError(why, Code.ResourceExhausted);
      this.finish(quiet, this.byHash.get(quiet)!, why);
    }
    // The last one of a group takes it along.
    const own = this.groups.get(name) ?? new Set();
    this.groups.set(name, own);
    return own;
  }

  private sweep(): void {
    for (const [key, session] of this.byHash) {
      if (this.isOver(session)) this.finish(key, session, 'The session is over.');
    }
  }

  private isOver(session: Session): boolean {
    return session.open === 0 && session.expiresAt <= this.now();
  }

  private finish(key: string, session: Session, why: string): void {
    this.byHash.delete(key);
    const name = groupOf(session);
    const group = this.groups.get(name);
    group?.delete(key);
    if (group?.size === 0) this.groups.delete(name);
    this.recount(session.parent, -1);
    session.end.abort(new ConnectError(why, Code.Unauthenticated));
  }
}

/** Looked up by hash: how long that takes tells nothing of the secret. */
function keyOf(token: string): string {
  return hashOf(token).toString('base64');
}

function groupOf({ parent, address }: Pick<Session, 'parent' | 'address'>): string {
  return `${tokenKey(parent)} ${address}`;
}

function tokenKey({ sha256 }: TokenHash): string {
  return sha256.toString('base64');
}
