import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { status } from '@grpc/grpc-js';
import fc from 'fast-check';
import { ContractError } from '../../src/contract/contract-error.ts';
import {
  AbortRequestSchema,
  type GenerateRequest,
  GenerateRequestSchema,
  SglangScheduler,
} from '../../src/contract/gen/sglang_scheduler_pb.ts';
import { normaliseRequest } from '../../src/contract/normalise-request.ts';
import type { NormalisedRequest } from '../../src/contract/normalised-request.ts';
import { AnswerChecker } from '../../src/contract/testing/answer-checker.ts';
import {
  mutatedBytes,
  mutatedRequest,
  type RequestWorld,
  validRequest,
} from '../../src/contract/testing/any-generate-request.ts';
import type { GrpcClient } from '../../src/relay/testing/grpc-client.ts';

/** How long one request may take, however many run beside it. */
const REQUEST_MS = 60_000;
/** Cases that are made at once: to make all holds up a relay and nodes of this process for longer than a lease. */
const BLOCK = 100;

/** What a client does beside reading. */
interface Act {
  readonly what: 'read' | 'abort' | 'drop' | 'pause';
  /** Messages before it does it. */
  readonly after: number;
}

const anyAct = fc.record<Act>({
  what: fc.oneof(
    { weight: 7, arbitrary: fc.constant('read') },
    { weight: 1, arbitrary: fc.constantFrom('abort', 'drop', 'pause') },
  ) as fc.Arbitrary<Act['what']>,
  after: fc.nat(6),
});

interface Case {
  readonly bytes: Uint8Array;
  /** Undefined: the bytes are no request. */
  readonly request: GenerateRequest | undefined;
  /** Its bytes were changed: what reads them more strictly than the decoder may refuse them. */
  readonly mangled: boolean;
  readonly act: Act;
}

const encode = (request: GenerateRequest) => toBinary(GenerateRequestSchema, request);

/** Requests in order, mutated ones and bytes that may be none, each with what its client does. */
function anyCase(world: RequestWorld): fc.Arbitrary<Case> {
  const whole = fc.oneof(
    { weight: 3, arbitrary: validRequest(world) },
    { weight: 3, arbitrary: mutatedRequest(world) },
  );
  return fc
    .record({
      bytes: fc.oneof(
        { weight: 6, arbitrary: whole.map((request) => ({ bytes: encode(request), mangled: false })) },
        { weight: 1, arbitrary: mutatedBytes(whole.map(encode)).map((bytes) => ({ bytes, mangled: true })) },
      ),
      act: anyAct,
      id: fc.integer({ min: 0, max: 400 }),
    })
    .map(({ bytes: { bytes, mangled }, act, id }) => {
      const request = decoded(bytes);
      if (!mangled && request && request.requestId === '' && id > 0) {
        // Some come twice while the first still runs.
        request.requestId = `fuzz-${id}`;
        return { bytes: encode(request), request, mangled, act };
      }
      return { bytes, request, mangled, act };
    });
}

function decoded(bytes: Uint8Array): GenerateRequest | undefined {
  try {
    return fromBinary(GenerateRequestSchema, bytes);
  } catch {
    return undefined;
  }
}

/** For whoever looks for the fault: any request can be shown so, also one that JSON has no form for. */
function shownAs(request: GenerateRequest): string {
  const text = JSON.stringify(request, (key, value) => {
    if (key === '$typeName') return undefined;
    return typeof value === 'bigint' || (typeof value === 'number' && !Number.isFinite(value)) ? String(value) : value;
  });
  return text.slice(0, 4_000);
}

interface Answer {
  readonly code: Code | undefined;
  readonly details: string;
  readonly checked: number;
  readonly checker: AnswerChecker | undefined;
}

/** A stream that came whole, and that nobody aborted. */
export interface Served {
  /** Number of the case. */
  readonly at: number;
  readonly request: NormalisedRequest;
  /** Ids of each sample. */
  readonly outputs: readonly (readonly number[])[];
}

/** Sends requests to a relay, and checks every message that comes back. */
export class Fuzz {
  readonly #world: RequestWorld;
  readonly #client: GrpcClient;
  /** Statuses that a request with a constraint may meet. */
  readonly #constraintCodes: readonly Code[];
  /** Answers being read, by request id. */
  readonly #running = new Map<string, Set<AnswerChecker>>();

  constructor(world: RequestWorld, client: GrpcClient, constraintCodes: readonly Code[]) {
    this.#world = world;
    this.#client = client;
    this.#constraintCodes = constraintCodes;
  }

  /**
   * Sends `count` requests, `parallel` at a time; how many met what. Rejects with seed and case where an answer is wrong
   * or hangs. `onServed` is told of each stream that came whole.
   */
  async run(
    count: number,
    parallel: number,
    seed: number,
    onServed: (served: Served) => void = () => {},
  ): Promise<Map<string, number>> {
    const arbitrary = anyCase(this.#world);
    const met = new Map<string, number>();
    let cases: Case[] = [];
    let next = 0;
    const work = async () => {
      for (let at = next++; at < count; at = next++) {
        if (at % BLOCK === 0) cases = fc.sample(arbitrary, { numRuns: BLOCK, seed: seed + at / BLOCK });
        const one = cases[at % BLOCK] as Case;
        const what = await this.#check(one, at, onServed).catch((error: unknown) => {
          const shown = one.request ? shownAs(one.request) : 'bytes';
          throw new Error(`seed ${seed}, case ${at}, ${JSON.stringify(one.act)}: ${shown}`, { cause: error });
        });
        met.set(what, (met.get(what) ?? 0) + 1);
      }
    };
    await Promise.all(Array.from({ length: parallel }, work));
    return met;
  }

  /** Sends a request and reads its answer; each message is checked as it comes. Rejects where one is wrong, or it hangs. */
  #answerTo({ bytes, request, act }: Case, taken: NormalisedRequest | undefined): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const stream = this.#client.streamBytes(SglangScheduler.method.generate, bytes);
      const checker = taken && new AnswerChecker(taken, this.#world.model);
      if (checker && taken)
        this.#running.set(taken.requestId, (this.#running.get(taken.requestId) ?? new Set()).add(checker));
      let checked = 0;
      const fail = (error: Error) => {
        clearTimeout(timer);
        stream.cancel();
        reject(error);
      };
      const timer = setTimeout(() => fail(new Error(`hangs after ${checked} messages`)), REQUEST_MS);
      const perform = () => {
        if (act.what === 'drop') stream.cancel();
        else if (act.what === 'abort' && request && request.requestId !== '') {
          // Its id may be that of another which runs.
          for (const live of this.#running.get(request.requestId) ?? []) live.aborted = true;
          const { requestId } = request;
          void this.#client
            .unary(SglangScheduler.method.abort, create(AbortRequestSchema, { requestId, reason: 'fuzz' }))
            .catch(fail);
        } else if (act.what === 'pause') {
          stream.pause();
          setTimeout(() => stream.resume(), 30);
        }
      };
      if (act.after === 0) setImmediate(perform);
      stream.on('data', ({ message, length }) => {
        try {
          if (!checker) throw new Error('a message of a request that is to be refused');
          checker.take(message, length);
          if (++checked === act.after) perform();
        } catch (error) {
          fail(error as Error);
        }
      });
      stream.on('error', () => {});
      let ended = false;
      let told: { code: status; details: string } | undefined;
      // A stream that was paused has its status before its last messages.
      const settle = () => {
        if (!told || !ended) return;
        clearTimeout(timer);
        if (checker && taken) this.#running.get(taken.requestId)?.delete(checker);
        const code = told.code === status.OK ? undefined : (told.code as number as Code);
        try {
          if (!(act.what === 'drop' && code === Code.Canceled)) checker?.end(code);
          resolve({ code, details: told.details, checked, checker });
        } catch (error) {
          fail(error as Error);
        }
      };
      stream.on('status', (end) => {
        told = end;
        settle();
      });
      stream.on('end', () => {
        ended = true;
        settle();
      });
    });
  }

  /** Statuses that a request which is in order may still meet. */
  #mayMeet({ requestId, rank, constraint }: NormalisedRequest, act: Act): ReadonlySet<Code> {
    const codes = new Set<Code>();
    if (requestId !== '') codes.add(Code.AlreadyExists);
    if (rank !== undefined && rank >= this.#world.ranks) codes.add(Code.Unavailable);
    if (constraint) for (const code of this.#constraintCodes) codes.add(code);
    if (act.what === 'drop') codes.add(Code.Canceled);
    return codes;
  }

  /** What came of a case, in one word. Rejects where the answer is wrong. */
  async #check(one: Case, at: number, onServed: (served: Served) => void): Promise<string> {
    const { request, mangled, act } = one;
    const expected = (() => {
      if (!request) return undefined;
      try {
        return normaliseRequest(request, this.#world.model);
      } catch (error) {
        if (error instanceof ContractError) return error;
        throw error;
      }
    })();
    const taken = expected instanceof ContractError ? undefined : expected;
    const { code, details, checked, checker } = await this.#answerTo(one, taken);
    const dropped = act.what === 'drop' && code === Code.Canceled;
    if (dropped) return 'dropped';
    if (!expected) {
      if (code !== Code.InvalidArgument && code !== Code.Internal) throw new Error(`undecodable bytes met ${code}`);
      return 'undecodable';
    }
    if (expected instanceof ContractError) {
      const guarded = code === Code.InvalidArgument;
      if (code !== expected.code && !(mangled && guarded)) {
        throw new Error(`refused with ${code} (${details}), and should be with: ${expected.message}`);
      }
      if (!mangled && !/^[a-z_]+(\.\S+)? /.test(details)) throw new Error(`a refusal that names nothing: ${details}`);
      return 'refused';
    }
    if (code === undefined) {
      if (checker && !checker.aborted) {
        onServed({ at, request: expected, outputs: checker.samples.map(({ ids }) => ids) });
      }
      return checked > 0 ? 'served' : 'nothing';
    }
    if (mangled && code === Code.InvalidArgument && checked === 0) return 'malformed';
    if (!this.#mayMeet(expected, act).has(code)) throw new Error(`taken, and met ${Code[code]}: ${details}`);
    return `met ${Code[code]}`;
  }
}
