import { type ClientHttp2Session, connect } from 'node:http2';
import { create, toBinary } from '@bufbuild/protobuf';
import { GenerateRequestSchema, SglangScheduler } from '../../src/contract/gen/sglang_scheduler_pb.ts';
import { pathOf } from '../../src/relay/testing/grpc-client.ts';
import { serveParent } from './child.ts';
import { FrameCounter } from './frame-counter.ts';
import { nowUs, promptOf } from './marks.ts';

export interface LoadOptions {
  readonly port: number;
  readonly streams: number;
  readonly tokens: number;
  /** Before it counts, and then. */
  readonly warmMs: number;
  readonly ms: number;
}

export interface LoadResult {
  readonly messages: number;
  readonly ms: number;
  /** Arrival of each token in microseconds, by request number: those counted alone. */
  readonly arrivals: ReadonlyMap<number, Float64Array>;
}

/** Streams of a run begin a few at a time. */
const OPENED_TOGETHER = 10;
const OPENED_EVERY_MS = 15;

let session: ClientHttp2Session | undefined;
let requests = 0;
let counting = false;
let messages = 0;
let broken: Error | undefined;
const arrivals = new Map<number, Float64Array>();

/** Resolves once its first message is here, and tells of its end. A gateway's channel: all streams in one connection. */
function open(tokens: number, onEnd: () => void): Promise<void> {
  const number = requests++;
  const request = create(GenerateRequestSchema, {
    requestId: `bench-${number}`,
    tokenized: { inputIds: promptOf(number) },
    samplingParams: { maxNewTokens: tokens, ignoreEos: true, topP: 1, topK: -1, repetitionPenalty: 1, n: 1 },
    logprobStartLen: -1,
    stream: true,
  });
  const body = toBinary(GenerateRequestSchema, request);
  const framed = Buffer.alloc(5 + body.length);
  framed.writeUInt32BE(body.length, 1);
  framed.set(body, 5);
  const path = pathOf(SglangScheduler.method.generate);
  const headers = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' };
  const stream = session!.request(headers);
  stream.end(framed);
  const frames = new FrameCounter();
  let seen = 0;
  let times: Float64Array | undefined;
  return new Promise((resolve) => {
    stream.on('data', (bytes: Buffer) => {
      const came = frames.take(bytes);
      if (came === 0) return;
      if (seen === 0) resolve();
      if (counting) {
        messages += came;
        times ??= new Float64Array(tokens);
        if (seen < tokens) times.fill(nowUs(), seen, Math.min(tokens, seen + came));
      }
      seen += came;
    });
    stream.on('trailers', (trailers) => {
      if (trailers['grpc-status'] !== '0')
        broken = new Error(`grpc-status ${trailers['grpc-status']}, ${trailers['grpc-message']}`);
      else if (seen < tokens) broken = new Error(`${seen} messages of ${tokens} tokens`);
    });
    stream.on('error', (error) => {
      if (!session!.destroyed) broken ??= error;
    });
    stream.on('close', () => {
      if (times) arrivals.set(number, times);
      onEnd();
    });
  });
}

async function connected(port: number): Promise<void> {
  session = connect(`http://127.0.0.1:${port}`, {
    settings: { initialWindowSize: 1024 * 1024 },
    maxSessionMemory: 4_096,
  });
  session.on('error', (error) => {
    broken ??= error;
  });
  session.setMaxListeners(0);
  // Until then it takes the server for one of 100 streams at a time.
  await new Promise((resolve) => session!.once('remoteSettings', resolve));
  session.setLocalWindowSize(16 * 1024 * 1024);
}

serveParent({
  /** Opens streams that stay open after one token. */
  async idle({ port, streams, tokens }: LoadOptions): Promise<void> {
    await connected(port);
    await Promise.all(Array.from({ length: streams }, () => open(tokens, () => {})));
  },
  async leave(): Promise<void> {
    session?.destroy();
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  },
  /** As many streams all the time: where one ends another begins. */
  async run({ port, streams, tokens, warmMs, ms }: LoadOptions): Promise<LoadResult> {
    await connected(port);
    arrivals.clear();
    messages = 0;
    let over = false;
    const again = () => {
      if (!over && !broken) void open(tokens, again);
    };
    // As if they had run for long: each is somewhere in its answer, and they don't end, or ask for credit, together.
    const began = performance.now();
    for (let i = 0; i < streams; i++) {
      void open(1 + Math.floor(Math.random() * tokens), again);
      if (i % OPENED_TOGETHER === 0) await new Promise((resolve) => setTimeout(resolve, OPENED_EVERY_MS));
    }
    await new Promise((resolve) => setTimeout(resolve, warmMs - (performance.now() - began)));
    const from = performance.now();
    counting = true;
    await new Promise((resolve) => setTimeout(resolve, ms));
    counting = false;
    const took = performance.now() - from;
    const counted = messages;
    over = true;
    session!.destroy();
    // The relay has its nodes stop what was left.
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    if (broken) throw broken;
    return { messages: counted, ms: took, arrivals };
  },
});
