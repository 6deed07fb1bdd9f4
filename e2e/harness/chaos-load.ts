import { setTimeout as sleep } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import {
  type GenerateRequest,
  GenerateRequestSchema,
  SamplingParamsSchema,
  SglangScheduler,
} from '../../src/contract/gen/sglang_scheduler_pb.ts';
import { normaliseRequest } from '../../src/contract/normalise-request.ts';
import type { ModelLimits } from '../../src/contract/normalised-request.ts';
import { AnswerChecker } from '../../src/contract/testing/answer-checker.ts';
import type { Random } from '../../src/gpu/testing/random.ts';
import type { MortalRelay } from './mortal-relay.ts';

/** How long one stream may take, whatever happens beside it. */
const STREAM_MS = 90_000;
/** Between two tries at a relay that is away. */
const RETRY_MS = 100;

/** How the client's library calls a connection that broke, or didn't come. */
const TRANSPORT = /^(Connection dropped|No connection established|read ECONN|write EPIPE|Received RST_STREAM)/;

/** Ids of each sample. */
type Outputs = readonly (readonly number[])[];

export interface Load {
  readonly relay: MortalRelay;
  readonly model: ModelLimits;
  readonly parallel: number;
  /** Streams of which tokens came, and not their end. */
  told: number;
}

/** Sent one after the other, and again. */
export interface Round {
  readonly requests: readonly GenerateRequest[];
  readonly over: () => boolean;
  /** What request ids begin with. */
  readonly name: string;
  readonly take: (at: number, ids: Outputs) => void;
  /** Between a stream's end and the next one in its place. */
  readonly pauseMs: () => number;
}

/** What came of a load. */
export interface LoadCount {
  /** Streams that ended with OK, each as expected. */
  served: number;
  /** Those that a killed relay took with it after their first tokens. */
  cutByRelay: number;
  tokens: number;
}

/** A request of random prompt and parameters: greedy or seeded, so that the same ids come each time. */
export function repeatableRequest(random: Random, model: ModelLimits, most: number): GenerateRequest {
  const inputIds = Array.from({ length: random.integer(3, 48) }, () => random.integer(3, model.vocabSize - 1));
  const greedy = random.uniform() < 0.5;
  const now = (share: number, value: number, otherwise: number) => (random.uniform() < share ? value : otherwise);
  return create(GenerateRequestSchema, {
    tokenized: { inputIds },
    samplingParams: create(SamplingParamsSchema, {
      temperature: greedy ? 0 : now(0.5, 0.8, 1.3),
      topP: now(0.3, 0.9, 1),
      topK: now(0.3, 20, -1),
      repetitionPenalty: now(0.3, 1.3, 1),
      frequencyPenalty: now(greedy ? 0.7 : 0.3, 0.6, 0),
      presencePenalty: now(0.3, 0.4, 0),
      n: now(0.25, 3, 1),
      maxNewTokens: random.integer(1, most),
      ignoreEos: random.uniform() < 0.7,
      customParams: { seed: random.integer(0, 2 ** 31) },
    }),
    stream: true,
  });
}

/** Why a stream ended otherwise than it should. */
class WrongStream extends Error {
  readonly code: status;
  /** What had come. */
  readonly ids: Outputs;
  /** The connection broke: no relay said so. */
  readonly transport: boolean;

  constructor(code: status, details: string, ids: Outputs, told: boolean) {
    super(`${status[code]}: ${details}, after ${ids.map(({ length }) => length)} tokens`);
    this.code = code;
    this.ids = ids;
    this.transport = code === status.UNAVAILABLE && !told && TRANSPORT.test(details);
  }
}

/** One stream, each message checked as it comes. Rejects with WrongStream where its status isn't OK. */
export function streamOnce(load: Load, request: GenerateRequest): Promise<Outputs> {
  const { relay, model } = load;
  const checker = new AnswerChecker(normaliseRequest(request, model), model);
  const { method } = SglangScheduler;
  return new Promise((resolve, reject) => {
    const stream = relay.client.stream(method.generate, request);
    let failed: Error | undefined;
    let told = false;
    const fail = (error: Error) => {
      failed ??= error;
      stream.cancel();
    };
    const ids = () => checker.samples.map((sample) => [...sample.ids]);
    const timer = setTimeout(() => fail(new Error(`hangs after ${ids().map(({ length }) => length)}`)), STREAM_MS);
    let began = false;
    stream.on('data', (message) => {
      if (!began) load.told++;
      began = true;
      try {
        told ||= message.response.case === 'error';
        checker.take(message, 0);
      } catch (error) {
        fail(error as Error);
      }
    });
    stream.on('error', () => {});
    stream.on('status', ({ code, details }) => {
      clearTimeout(timer);
      // Its last messages may come in the same turn.
      setImmediate(() => {
        if (began) load.told--;
        try {
          if (failed) throw failed;
          if (code !== status.OK) throw new WrongStream(code, details, ids(), told);
          checker.end(undefined);
          resolve(ids());
        } catch (error) {
          reject(error);
        }
      });
    });
  });
}

/**
 * Sends `requests`, again and again until `over`, each whole round at least once; rejects at the first stream that ends
 * wrongly. Where the relay is killed a stream may break, and the next one under its id asks for something else, so that
 * tokens of the old one would show; all else is to end with OK and its ids.
 */
export async function runLoad(load: Load, round: Round): Promise<LoadCount> {
  const { relay, parallel } = load;
  const { requests, over, name, take, pauseMs } = round;
  const count: LoadCount = { served: 0, cutByRelay: 0, tokens: 0 };
  let next = 0;
  let broken: unknown;
  const serve = async (number: number) => {
    for (let at = number % requests.length; ; at = (at + 1) % requests.length) {
      const request = { ...requests[at]!, requestId: `${name}-${number}` };
      const deaths = relay.alive ? relay.deaths : -1;
      try {
        const ids = await streamOnce(load, request);
        take(at, ids);
        count.served++;
        count.tokens += ids.reduce((sum, { length }) => sum + length, 0);
        return;
      } catch (error) {
        // A transport's end, not one that a relay told: a killed one says nothing more.
        const transport = error instanceof WrongStream && error.transport;
        if (!transport || deaths === relay.deaths) throw new Error(`${request.requestId}`, { cause: error });
        if (error.ids.some(({ length }) => length > 0)) count.cutByRelay++;
        await sleep(RETRY_MS);
      }
    }
  };
  const work = async () => {
    while (broken === undefined && (next < requests.length || !over())) {
      await serve(next++).catch((error: unknown) => {
        broken ??= error;
      });
      await sleep(pauseMs());
    }
  };
  await Promise.all(Array.from({ length: parallel }, work));
  if (broken !== undefined) throw broken;
  return count;
}
