import { connect, type Socket } from 'node:net';
import { NodeRelay } from '../../src/contract/gen/node_relay_pb.ts';
import { pathOf } from '../../src/relay/testing/grpc-client.ts';

/**
 * Reports over one connection, one after the other, in plain HTTP/1.1: Node's client takes as much as the relay does, and all
 * nodes share a core with it.
 */
export class ReportSocket {
  readonly #socket: Socket;
  readonly #head: string;
  #came = '';
  #onAnswer: ((error?: Error) => void) | undefined;

  constructor(port: number) {
    this.#head = [
      `POST ${pathOf(NodeRelay.method.report)} HTTP/1.1`,
      `host: 127.0.0.1:${port}`,
      'content-type: application/proto',
      'content-length: ',
    ].join('\r\n');
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true });
    this.#socket.setEncoding('latin1');
    this.#socket.on('data', (text: string) => this.#take(text));
    this.#socket.on('error', (error) => this.#settle(error));
    this.#socket.on('close', () => this.#settle(new Error('the relay closed the connection of the reports')));
  }

  /** Settles with its answer. Rejects where that is no 200. */
  send(body: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#onAnswer = (error) => (error ? reject(error) : resolve());
      this.#socket.write(
        Buffer.concat([Buffer.from(`${this.#head}${body.byteLength}\r\n\r\n`, 'latin1'), body]),
        (error) => {
          if (error) this.#settle(error);
        },
      );
    });
  }

  #take(text: string): void {
    this.#came += text;
    const headEnd = this.#came.indexOf('\r\n\r\n');
    if (headEnd < 0) return;
    const length = /\r\ncontent-length: (\d+)/i.exec(this.#came.slice(0, headEnd))?.[1];
    if (this.#came.length < headEnd + 4 + Number(length)) return;
    const answer = this.#came;
    this.#came = '';
    this.#settle(answer.startsWith('HTTP/1.1 200 ') ? undefined : new Error(`a report met ${answer}`));
  }

  #settle(error?: Error): void {
    const onAnswer = this.#onAnswer;
    this.#onAnswer = undefined;
    onAnswer?.(error);
  }
}
