import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Client } from '@connectrpc/connect';
import type { AttachRequest, Embed, Generate, NodeLoadSchema, NodeRelay } from '../contract/gen/node_relay_pb.ts';
import type { AdmissionPolicy } from '../engine/admission-order.ts';
import type { CacheNews } from '../engine/cache-log.ts';
import type { Profile, ProfileRequest } from '../engine/profile.ts';
import type { EngineRequest } from '../engine/request.ts';
import type { NodeAdapters } from './node-adapters.ts';

/** What a session drives: the engine, as the relay's commands need it. */
export interface CommandTarget {
  readonly idle: boolean;
  submit(request: EngineRequest): void;
  /** Makes vectors; absent where the model generates. */
  embed?(command: Embed): void;
  abort(jobId: bigint): boolean;
  abortAll(): void;
  grant(jobId: bigint, index: number, credit: number): void;
  /** Returns the tokens given back. */
  flushCache(): number;
  /** Has `takeCacheNews` tell all that is cached anew. */
  beginCacheNews(): void;
  /** What changed in the prefix cache since the last call, of at most `most` blocks. */
  takeCacheNews(most: number): readonly CacheNews[];
  readonly hasCacheNews: boolean;
  setPolicy(policy: AdmissionPolicy): void;
  /** Never rejects. */
  profile(request: ProfileRequest): Promise<Profile>;
  /** Ends it with what there is. */
  stopProfile(): void;
}

/** What names a session to its relay: enough for a closing page to say Detach. */
export interface SessionKey {
  readonly sessionToken: string;
  readonly relayEpoch: bigint;
  readonly sessionEpoch: bigint;
}

export type SessionState = 'attaching' | 'serving' | 'reconnecting' | 'leaving' | 'left';

export interface SessionOptions {
  readonly client: Client<typeof NodeRelay>;
  /** What Attach tells, but for `resume`. */
  readonly identity: AttachRequest;
  readonly target: CommandTarget;
  /** Unset: the model takes no LoRA adapters. */
  readonly adapters?: NodeAdapters | undefined;
  readonly load: () => MessageInitShape<typeof NodeLoadSchema>;
  readonly onState: (state: SessionState, detail: string) => void;
  /** The session's key, whenever it changes. */
  readonly onKey: (key: SessionKey | undefined, rank: number | undefined) => void;
  /** The relay gave it a request. */
  readonly onRequest?: (request: Generate | Embed) => void;
  /** A profile that the relay asked for is done. */
  readonly onProfile?: (profile: Profile) => void;
  readonly random: () => number;
}

/** Why a session is over for good. */
export type SessionEnd =
  | { readonly why: 'left' }
  /** The relay serves another build of the page, and nothing runs here any more. */
  | { readonly why: 'other-build' }
  /** The relay won't have this node, or asks for what it doesn't know. */
  | { readonly why: 'refused'; readonly message: string };
