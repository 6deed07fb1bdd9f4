import { type DescMessage, type DescMethod, fromBinary, type MessageShape, toBinary } from '@bufbuild/protobuf';
import { Client, type ClientReadableStream, credentials, type ServiceError } from '@grpc/grpc-js';

/**
 * gRPC's own JavaScript client, which shares no code with the relay's server: one channel, one connection, as a
 * gateway has it.
 */
export class GrpcClient {
  readonly channel: Client;

  constructor(port: number, options: Record<string, number> = {}) {
    this.channel = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
      'grpc.max_send_message_length': -1,
      ...options,
    });
  }

  stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethod & { input: I; output: O },
    request: MessageShape<I>,
  ): ClientReadableStream<MessageShape<O>> {
    return this.channel.makeServerStreamRequest(
      pathOf(method),
      (message: MessageShape<I>) => Buffer.from(toBinary(method.input, message)),
      (bytes) => fromBinary(method.output, bytes),
      request,
    );
  }

  /** Sends bytes as they are; each message comes with its length on the wire. */
  streamBytes<O extends DescMessage>(
    method: DescMethod & { output: O },
    bytes: Uint8Array,
  ): ClientReadableStream<{ message: MessageShape<O>; length: number }> {
    return this.channel.makeServerStreamRequest(
      pathOf(method),
      (message: Uint8Array) => Buffer.from(message),
      (answer) => ({ message: fromBinary(method.output, answer), length: answer.length }),
      bytes,
    );
  }

  /** Sends bytes as they are. Resolves with the error, or rejects on success. */
  refusal(path: string, bytes: Buffer): Promise<ServiceError> {
    return new Promise((resolve, reject) => {
      const call = this.channel.makeServerStreamRequest(
        path,
        (message: Buffer) => message,
        (answer) => answer,
        bytes,
      );
      call.on('data', () => {});
      call.on('error', (error) => resolve(error as ServiceError));
      call.on('end', () => reject(new Error('the call went well')));
    });
  }

  unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethod & { input: I; output: O },
    request: MessageShape<I>,
    signal?: AbortSignal,
  ): Promise<MessageShape<O>> {
    return new Promise((resolve, reject) => {
      const call = this.channel.makeUnaryRequest(
        pathOf(method),
        (message: MessageShape<I>) => Buffer.from(toBinary(method.input, message)),
        (bytes) => fromBinary(method.output, bytes),
        request,
        (error, value) => {
          if (error) reject(error);
          else resolve(value as MessageShape<O>);
        },
      );
      signal?.addEventListener('abort', () => call.cancel(), { once: true });
    });
  }

  close(): void {
    this.channel.close();
  }
}

export function pathOf(method: DescMethod): string {
  return `/${method.parent.typeName}/${method.name}`;
}

/** All messages of a stream, and how it ended. Bounded: rejects after `ms`. */
export function collect<T>(
  stream: ClientReadableStream<T>,
  ms = 15_000,
): Promise<{ messages: T[]; error: ServiceError | undefined }> {
  return new Promise((resolve, reject) => {
    const messages: T[] = [];
    let error: ServiceError | undefined;
    const timer = setTimeout(() => {
      stream.cancel();
      reject(new Error(`the stream did not end within ${ms} ms, after ${messages.length} messages`));
    }, ms);
    stream.on('data', (message: T) => messages.push(message));
    stream.on('error', (failure) => {
      error = failure as ServiceError;
    });
    stream.on('status', () => {
      clearTimeout(timer);
      // 'error' comes before or after it, in the same turn.
      setImmediate(() => resolve({ messages, error }));
    });
  });
}
