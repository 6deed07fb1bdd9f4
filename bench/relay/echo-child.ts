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

/** Streams of tokens out of nowhere: what a library costs by itself. A request of one token stays open after it. */
function* tokensOf(request: GenerateRequest): Generator<GenerateResponse> {
  const count = request.samplingParams?.maxNewTokens ?? 0;
  const { requestId } = request;
  for (let i = 0; i < count; i++) {
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
      for (const message of tokensOf(request)) {
        await nextTurn();
        yield message;
      }
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
      for (const message of tokensOf(call.request)) {
        await nextTurn();
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

serveParent({ start: (library: string) => (library === 'connect-node' ? bareConnect() : bareGrpc()) });
