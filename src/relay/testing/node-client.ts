import { type Client, createClient, type Transport } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-node';
import { NodeRelay } from '../../contract/gen/node_relay_pb.ts';
import { bearer } from './bearer.ts';

/** How a node of the tests reaches its relay. */
export interface NodeDoor {
  readonly webPort: number;
  /** Of the web port, on every request. */
  readonly sessionToken?: string;
  /** Instead of Connect over HTTP/1.1 in the clear. */
  readonly transport?: Transport;
}

export function nodeClient({ webPort, sessionToken, transport }: NodeDoor): Client<typeof NodeRelay> {
  const clear = () =>
    createConnectTransport({
      baseUrl: `http://127.0.0.1:${webPort}`,
      httpVersion: '1.1',
      interceptors: sessionToken === undefined ? [] : [bearer(sessionToken)],
    });
  return createClient(NodeRelay, transport ?? clear());
}
