import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serveModelFile } from '../../src/relay/model-files.ts';
import type { ServedModel } from '../../src/relay/served-model.ts';

/** Serves a model as a relay does, and nothing else. */
export async function startModelServer(model: ServedModel): Promise<{ readonly url: string; readonly server: Server }> {
  const server = createServer((request, response) => {
    if (!serveModelFile(model, request, response)) response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}
