import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import type { createConnectRouter } from '@connectrpc/connect';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import { Server, ServerCredentials, type ServerWritableStream } from '@grpc/grpc-js';
import {
  type GenerateRequest,
  GenerateRequestSchema,
  type GenerateResponse,
  GenerateResponseSchema,
  SglangScheduler,
} from '../../src/contract/gen/sglang_scheduler_pb.ts';
import { pathOf } from '../../src/relay/testing/grpc-client.ts';
import { serveParent } from './child.ts';
import { nowUs, numberOf } from './marks.ts';
import { Pace } from './pace.ts';

/** Streams step together in as many groups as there are nodes before the relay. */
const GROUPS = 100;

class Group {
  #waiting: (() => void)[] = [];

  constructor(stepMs: number) {
    new Pace(stepMs, () => {
      const waiting = this.#waiting;
      this.#waiting = [];
      for (const wake of waiting) wake();
    });
  }

  /** Settles with the next step. */
  step(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

/** Of each request: when each of its tokens was made, in microseconds. */
const births = new Map<number, Float64Array>();
let groups: readonly Group[] | undefined;

/** Streams of tokens out of nowhere: what a library costs by itself. A request of one token stays open after it. */
async function* tokensOf(request: GenerateRequest): AsyncGenerator<GenerateResponse> {
  const count = request.samplingParams?.maxNewTokens ?? 0;
  const { requestId, tokenized } = request;
  const number = numberOf(tokenized!.inputIds);
  const group = groups?.[number % GROUPS];
  const made = new Float64Array(count);
  if (group) births.set(number, made);
  for (let i = 0; i < count; i++) {
    await (group ? group.step() : nextTurn());
    made[i] = nowUs();
    const value = { tokenIds: [i % 500], promptTokens: 4, completionTokens: i + 1, cachedTokens: 0, index: 0 };
    yield create(GenerateResponseSchema, { requestId, response: { case: 'chunk', value } });
  }
}

let turn: Promise<void> | undefined;

/** The event loop's next turn: a server that makes tokens without end would never come to send them. */
function nextTurn(): Promise<void> {
  turn ??= new Promise((resolve) => {
    setImmediate(() => {
      turn = undefined;
      resolve();
    });
  });
  return turn;
}

const isIdle = (request: GenerateRequest) => request.samplingParams?.maxNewTokens === 1;
const never = () => new Promise<void>(() => {});

/** As connect-node's own adapter serves it. */
function bareConnect(): Promise<number> {
  const routes = (router: ReturnType<typeof createConnectRouter>) =>
    router.rpc(SglangScheduler.method.generate, async function* (request, context) {
      yield* tokensOf(request);
      const left = new Promise<void>((resolve) => context.signal.addEventListener('abort', () => resolve()));
      if (isIdle(request)) await left;
    });
  const server = createServer(connectNodeAdapter({ routes }));
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port));
  });
}

function bareGrpc(): Promise<number> {
  const server = new Server();
  const definition = {
    generate: {
      path: pathOf(SglangScheduler.method.generate),
      requestStream: false,
      responseStream: true,
      requestSerialize: (message: GenerateRequest) => Buffer.from(toBinary(GenerateRequestSchema, message)),
      requestDeserialize: (bytes: Buffer) => fromBinary(GenerateRequestSchema, bytes),
      responseSerialize: (message: GenerateResponse) => Buffer.from(toBinary(GenerateResponseSchema, message)),
      responseDeserialize: (bytes: Buffer) => fromBinary(GenerateResponseSchema, bytes),
    },
  } as const;
  server.addService(definition, {
    async generate(call: ServerWritableStream<GenerateRequest, GenerateResponse>) {
      for await (const message of tokensOf(call.request)) {
        if (call.cancelled) return;
        if (!call.write(message)) await new Promise((resolve) => call.once('drain', resolve));
      }
      if (isIdle(call.request)) await never();
      call.end();
    },
  });
  return new Promise((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) =>
      error ? reject(error) : resolve(port),
    );
  });
}

serveParent({
  start: (library: string) => (library === 'connect-node' ? bareConnect() : bareGrpc()),
  /** Streams from now on make a token every `stepMs`. */
  pace(stepMs: number): void {
    groups = Array.from({ length: GROUPS }, () => new Group(stepMs));
  },
  births: () => births,
});
