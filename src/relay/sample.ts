export interface Finish {
  readonly reason: 'stop' | 'length' | 'abort';
  readonly matchedTokenId?: number;
  readonly matchedStopString?: string;
}

/** Best logprobs of one position, best first. */
export interface TopOfPosition {
  readonly ids: readonly number[];
  readonly logprobs: Float32Array;
}

/** What is told of one output token; each is set where asked for. */
export interface TokenDetails {
  readonly logprob: number | undefined;
  readonly top: TopOfPosition | undefined;
  /** In the order of the request's `logprobIds`. */
  readonly byId: Float32Array | undefined;
  /** The hidden state that it was drawn from, [hiddenSize]. */
  readonly hidden: Float32Array | undefined;
}

/** Tokens as a node told them. */
export interface NewTokens {
  readonly ids: readonly number[];
  /** One per id; undefined where nothing is asked for. */
  readonly details?: readonly TokenDetails[] | undefined;
}

/** One of a job's choices. */
export interface Sample {
  readonly index: number;
  readonly ids: number[];
  /** One per id, undefined behind `sent` where complete leaves them out; empty where nothing is asked for. */
  readonly details: (TokenDetails | undefined)[];
  /** Ids that belong to chunks which are ready, written or not. */
  chunked: number;
  /** Ids written to the client's stream. */
  sent: number;
  /** Ids, in all, that a node may have made. */
  credit: number;
  cachedTokens: number | undefined;
  /** Of the last prompt position, where it was asked for and no token was made. */
  promptState: Float32Array | undefined;
  /** Of an input that a vector is asked of: what it gave. */
  vector: Float32Array | undefined;
  finish: Finish | undefined;
  /** Nodes that made a part of it, by id, with how many ids it had before. */
  readonly makers: Map<string, number>;
  /** It is told to an operator: one of them lied. */
  flagged: boolean;
}

/** A sample that goes on after `ids`; a node may make `ahead` more tokens at first. */
export function newSample(index: number, ids: readonly number[], ahead: number): Sample {
  return {
    index,
    ids: [...ids],
    details: ids.map(() => undefined),
    chunked: ids.length,
    sent: ids.length,
    credit: ids.length + ahead,
    cachedTokens: undefined,
    promptState: undefined,
    vector: undefined,
    finish: undefined,
    makers: new Map(),
    flagged: false,
  };
}
