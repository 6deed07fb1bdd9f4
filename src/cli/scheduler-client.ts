import { type Client, Code, ConnectError, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { CliError } from './errors.ts';
import { accepts } from './net.ts';
import { formatHost, type HostPort } from './values.ts';

export type SchedulerClient = Client<typeof SglangScheduler>;

/** A gRPC client of the relay; a sentence where nothing listens. */
export async function connectScheduler(relay: HostPort): Promise<SchedulerClient> {
  const address = `${formatHost(relay.host)}:${relay.port}`;
  if (!(await accepts(relay))) throw new CliError(`there is no relay at ${address}: start one with "shoal start".`);
  return createClient(SglangScheduler, createGrpcTransport({ baseUrl: `http://${address}` }));
}

/** The relay's answer as one sentence. */
export function asCliError(error: unknown, relay: HostPort): CliError {
  if (error instanceof CliError) return error;
  const failure = ConnectError.from(error);
  const name = Code[failure.code].replace(/(?<=[a-z])(?=[A-Z])/g, '_').toUpperCase();
  return new CliError(`the relay at ${formatHost(relay.host)}:${relay.port} answers ${name}: ${failure.rawMessage}`);
}
