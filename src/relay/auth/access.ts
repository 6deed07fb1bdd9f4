import type { IncomingHttpHeaders } from 'node:http';
import { Code, ConnectError } from '@connectrpc/connect';
import type { Logger } from 'pino';
import type { Access } from './access-table.ts';
import type { Principal } from './principal.ts';
import { type GivenSession, type Session, Sessions } from './sessions.ts';
import { readTokenFile, watchTokenFile } from './token-file.ts';
import { type RoleToken, TokenSet } from './token-set.ts';

export interface AccessSettings {
  /** From flags and environment: they stay as long as the relay runs. */
  readonly tokens: readonly RoleToken[];
  /** More of them, read again when it changes. */
  readonly tokenFile: string | undefined;
  readonly sessionMs: number;
}

/** Who may do what on the web port: tokens, the sessions they are exchanged for, and what is refused. */
export class WebAccess {
  /** False: no tokens were set up, and everybody may do everything. */
  readonly asksTokens: boolean;
  private tokens: TokenSet;
  private readonly sessions: Sessions;
  private readonly settings: AccessSettings;
  private readonly log: Logger;
  private readonly unwatch: (() => void) | undefined;

  /** Throws RangeError for tokens that can't be, and Node's error where the file can't be read. */
  constructor(settings: AccessSettings, log: Logger) {
    this.settings = settings;
    this.log = log;
    this.tokens = this.read();
    this.asksTokens = settings.tokens.length > 0 || settings.tokenFile !== undefined;
    this.sessions = new Sessions(settings.sessionMs);
    if (settings.tokenFile !== undefined) this.unwatch = watchTokenFile(settings.tokenFile, () => this.reload());
  }

  /** Reads the token file again. Sessions of tokens that are gone end; a file that can't be read changes nothing. */
  reload(): void {
    if (this.settings.tokenFile === undefined) return;
    try {
      this.tokens = this.read();
    } catch (error) {
      this.log.error(
        { reason: (error as Error).message },
        'the token file was not taken: the tokens before still count',
      );
      return;
    }
    const ended = this.sessions.keepOnly(this.tokens);
    this.log.info({ tokens: this.tokens.all.length, sessionsEnded: ended }, 'token file read');
  }

  /** Gives a session for a token; `bounded`: its address is one host's. Throws ConnectError: UNAUTHENTICATED without a right one, RESOURCE_EXHAUSTED. */
  exchange(headers: IncomingHttpHeaders, address: string, bounded: boolean): GivenSession & { readonly role: string } {
    const token = bearerOf(headers);
    const found = token === undefined ? undefined : this.tokens.find(token);
    if (!found) throw unauthenticated(token);
    return { ...this.sessions.open(found, address, bounded), role: found.role };
  }

  /** Whom a request comes from. Throws ConnectError: UNAUTHENTICATED, or PERMISSION_DENIED for another role's session. */
  principal(headers: IncomingHttpHeaders, access: Access, address: string): Principal | Session {
    if (!this.asksTokens || access === 'public') return { role: undefined, key: address, address, ended: undefined };
    const token = bearerOf(headers);
    const session = token === undefined ? undefined : this.sessions.use(token);
    if (!session) throw unauthenticated(token);
    if (!access.includes(session.role!)) {
      throw new ConnectError(`The ${session.role} role may not do this.`, Code.PermissionDenied);
    }
    return session;
  }

  /** What reads metrics can't exchange tokens: there, and nowhere else, an operator's token itself will do. */
  isOperatorToken(headers: IncomingHttpHeaders): boolean {
    const token = bearerOf(headers);
    return token !== undefined && this.tokens.find(token)?.role === 'operator';
  }

  close(): void {
    this.unwatch?.();
    this.sessions.close();
  }

  private read(): TokenSet {
    const { tokens, tokenFile } = this.settings;
    return new TokenSet([...tokens, ...(tokenFile === undefined ? [] : readTokenFile(tokenFile))]);
  }
}

/** RFC 6750 §2.1: a header only, never a URL, whose text is logged and kept by others. */
function bearerOf({ authorization }: IncomingHttpHeaders): string | undefined {
  return /^Bearer ([A-Za-z0-9._~+/-]{1,256}=*)$/i.exec(authorization ?? '')?.[1];
}

function unauthenticated(token: string | undefined): ConnectError {
  return new ConnectError(
    token === undefined ? 'This relay asks for a token.' : 'The token or session counts no more, or never did.',
    Code.Unauthenticated,
  );
}
