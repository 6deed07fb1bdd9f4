// Random and mutated requests, over real gRPC through the real relay to a node over the CPU reference runner.
import { create, fromBinary, toBinary, toJson } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { status } from '@grpc/grpc-js';
import fc from 'fast-check';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { ContractError } from '../src/contract/contract-error.ts';
import {
  AbortRequestSchema,
  type GenerateRequest,
  GenerateRequestSchema,
  GetLoadsRequestSchema,
  type SamplingParams,
  SglangScheduler,
} from '../src/contract/gen/sglang_scheduler_pb.ts';
import { normaliseRequest } from '../src/contract/normalise-request.ts';
import type { ModelLimits, NormalisedRequest } from '../src/contract/normalised-request.ts';
import { AnswerChecker } from '../src/contract/testing/answer-checker.ts';
import {
  mutatedBytes,
  mutatedRequest,
  type RequestWorld,
  validRequest,
} from '../src/contract/testing/any-generate-request.ts';
import { GrammarError, type Grammars } from '../src/engine/grammars.ts';
import { checkBlocks } from '../src/engine/testing/check-blocks.ts';
import { type IdAutomaton, IdGrammars } from '../src/engine/testing/id-grammars.ts';
import { tinyModel } from '../src/model/testing/tiny-model.ts';
import { type Relay, startRelay } from '../src/relay/relay.ts';
import { readServedModel } from '../src/relay/served-model.ts';
import { collect, GrpcClient } from '../src/relay/testing/grpc-client.ts';
import { type CpuNode, openCpuNode } from './harness/cpu-node.ts';
import { until } from './harness/wait.ts';

vi.setConfig({ testTimeout: 600_000 });

const LONG = process.env.SHOAL_LONG === '1';
const COUNT = LONG ? 20_000 : 600;
const PARALLEL = 48;
/** How long one request may take, however many run beside it. */
const REQUEST_MS = 60_000;

const SHAPE = { vocabSize: 64, contextLength: 96, hiddenSize: 16 };
const EOS = [2];
const RANKS = 2;
const POOL_TOKENS = 96 * 16;
const MODEL: ModelLimits = { ...SHAPE, eosTokenIds: EOS, poolTokens: POOL_TOKENS };

const automaton = fc.record<IdAutomaton>({
  seed: fc.nat(),
  states: fc.integer({ min: 1, max: 6 }),
  density: fc.constantFrom(4, 4, 16),
  ends: fc.integer({ min: 1, max: 4 }),
  fault: fc.constantFrom(undefined, undefined, undefined, undefined, 'refused' as const) as never,
});
const WORLD: RequestWorld = {
  model: MODEL,
  maxNewTokens: 24,
  ranks: RANKS,
  stop: fc.stringMatching(/^[a-z]{1,3}$/),
  constraint: fc.record({
    case: fc.constantFrom('regex', 'jsonSchema', 'ebnfGrammar', 'structuralTag'),
    value: automaton.map((one) => JSON.stringify(one)),
  }) as fc.Arbitrary<SamplingParams['constraint']>,
};

let relay: Relay;
let client: GrpcClient;
const nodes: CpuNode[] = [];
const grammars: IdGrammars[] = [];

/** Texts that are no automata are refused, as a compiler refuses what is no grammar. */
function strict(inner: IdGrammars): Grammars {
  return {
    async open(constraint, outputIds) {
      const valid = (() => {
        try {
          return typeof JSON.parse(constraint.text)?.states === 'number';
        } catch {
          return false;
        }
      })();
      if (!valid) throw new GrammarError('invalid_argument', 'not a grammar');
      return inner.open(constraint, outputIds);
    },
    destroy: () => inner.destroy(),
  };
}

beforeAll(async () => {
  const served = await readServedModel('models/stories260K');
  relay = await startRelay({
    model: { ...served, ...SHAPE, layers: 1, eosTokenIds: EOS },
    build: { packageVersion: '0.0.0-test', pageHash: 'a'.repeat(64) },
    grpcPort: 0,
    webPort: 0,
    closeGraceMs: 0,
    // A rank that nobody has.
    startWaitMs: 300,
    logger: pino({ level: 'silent' }),
  });
  client = new GrpcClient(relay.grpcPort);
  const model = tinyModel(11, SHAPE);
  for (let rank = 0; rank < RANKS; rank++) {
    const own = new IdGrammars(SHAPE.vocabSize, EOS, () => Promise.resolve());
    grammars.push(own);
    nodes.push(
      await openCpuNode({ webPort: relay.webPort, digest: relay.model.digest }, model, {
        nodeId: `fuzz-node-${rank}`,
        maxRunning: 16,
        kvBlocks: POOL_TOKENS / 16,
        grammars: strict(own),
      }),
    );
  }
  await until('all nodes serve', 10_000, async () => (await loads()).length === RANKS);
});

afterAll(async () => {
  client?.close();
  for (const node of nodes) node.session.leave();
  await Promise.all(nodes.map((node) => node.ended));
  await relay?.close();
});

async function loads() {
  return (await client.unary(SglangScheduler.method.getLoads, create(GetLoadsRequestSchema))).loads;
}

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
const whole = fc.oneof({ weight: 3, arbitrary: validRequest(WORLD) }, { weight: 3, arbitrary: mutatedRequest(WORLD) });
const anyCase: fc.Arbitrary<Case> = fc
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

function decoded(bytes: Uint8Array): GenerateRequest | undefined {
  try {
    return fromBinary(GenerateRequestSchema, bytes);
  } catch {
    return undefined;
  }
}

interface Answer {
  readonly code: Code | undefined;
  readonly details: string;
  readonly checked: number;
}

/** Answers being read, by request id. */
const running = new Map<string, Set<AnswerChecker>>();

/** Sends a request and reads its answer; each message is checked as it comes. Rejects where one is wrong, or it hangs. */
function answerTo({ bytes, request, act }: Case, taken: NormalisedRequest | undefined): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const stream = client.streamBytes(SglangScheduler.method.generate, bytes);
    const checker = taken && new AnswerChecker(taken, MODEL);
    if (checker && taken) running.set(taken.requestId, (running.get(taken.requestId) ?? new Set()).add(checker));
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
        for (const live of running.get(request.requestId) ?? []) live.aborted = true;
        const { requestId } = request;
        void client
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
      if (checker && taken) running.get(taken.requestId)?.delete(checker);
      const code = told.code === status.OK ? undefined : (told.code as number as Code);
      try {
        if (!(act.what === 'drop' && code === Code.Canceled)) checker?.end(code);
        resolve({ code, details: told.details, checked });
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
function mayMeet({ requestId, rank, constraint }: NormalisedRequest, act: Act): ReadonlySet<Code> {
  const codes = new Set<Code>();
  if (requestId !== '') codes.add(Code.AlreadyExists);
  if (rank !== undefined && rank >= RANKS) codes.add(Code.Unavailable);
  if (constraint) codes.add(Code.InvalidArgument);
  if (act.what === 'drop') codes.add(Code.Canceled);
  return codes;
}

/** What came of a case, in one word. Rejects where the answer is wrong. */
async function check(one: Case): Promise<string> {
  const { request, mangled, act } = one;
  const expected = (() => {
    if (!request) return undefined;
    try {
      return normaliseRequest(request, MODEL);
    } catch (error) {
      if (error instanceof ContractError) return error;
      throw error;
    }
  })();
  const taken = expected instanceof ContractError ? undefined : expected;
  const { code, details, checked } = await answerTo(one, taken);
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
  if (code === undefined) return checked > 0 ? 'served' : 'nothing';
  if (mangled && code === Code.InvalidArgument && checked === 0) return 'malformed';
  if (!mayMeet(expected, act).has(code)) throw new Error(`taken, and met ${Code[code]}: ${details}`);
  return `met ${Code[code]}`;
}

/** The ids that each rank makes of one prompt. */
async function reference(): Promise<number[][]> {
  return Promise.all(
    nodes.map(async (_, dataParallelRank) => {
      const request = create(GenerateRequestSchema, {
        tokenized: { inputIds: [5, 9, 13, 21, 34] },
        samplingParams: { maxNewTokens: 20, ignoreEos: true },
        dataParallelRank,
      });
      const { messages, error } = await collect(client.stream(SglangScheduler.method.generate, request));
      expect(error).toBeUndefined();
      const last = messages.at(-1)?.response;
      return last?.case === 'complete' ? last.value.outputIds : [];
    }),
  );
}

test(`${COUNT} requests: each meets a status from the table or a whole stream, and nothing is left behind`, async () => {
  const seed = Number(process.env.SHOAL_SEED ?? Math.floor(Math.random() * 2 ** 31));
  const cases = fc.sample(anyCase, { numRuns: COUNT, seed });
  const before = await reference();
  expect(before.map(({ length }) => length)).toEqual([20, 20]);
  const met = new Map<string, number>();
  let next = 0;
  const work = async () => {
    for (let at = next++; at < cases.length; at = next++) {
      const one = cases[at] as Case;
      const what = await check(one).catch((error: unknown) => {
        const shown = one.request
          ? JSON.stringify(toJson(GenerateRequestSchema, one.request)).slice(0, 4_000)
          : 'bytes';
        throw new Error(`seed ${seed}, case ${at}, ${JSON.stringify(one.act)}: ${shown}`, { cause: error });
      });
      met.set(what, (met.get(what) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, work));
  console.log(`fuzz, seed ${seed}:`, Object.fromEntries([...met].sort()));

  await until('nothing runs', 30_000, async () => (await loads()).every((load) => load.numTotalReqs === 0));
  await until('the engines are idle', 10_000, async () => nodes.every(({ engine }) => engine.idle));
  for (const [at, { engine }] of nodes.entries()) {
    checkBlocks(engine.scheduler);
    engine.flushCache();
    expect(engine.scheduler.kv.free).toBe(engine.scheduler.kv.blocks);
    expect([grammars[at]?.opening, grammars[at]?.closed]).toEqual([0, grammars[at]?.opened]);
  }
  expect(await reference()).toEqual(before);
  // Else it says little.
  expect(met.get('served')).toBeGreaterThan(COUNT / 4);
  expect(met.get('refused')).toBeGreaterThan(COUNT / 20);
});
