import { ConnectError, createClient } from '@connectrpc/connect';
import { createGrpcWebTransport } from '@connectrpc/connect-web';
import { signal } from '@preact/signals';
import { SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import { viewerAccess } from '../viewer-access.ts';

const BOUND_MS = 120_000;

/** Two texts, a line each, to begin with. */
const EXAMPLE = 'The cat sat on the mat.\nA dog ran over the lawn.';

export const lines = signal(EXAMPLE);
export const asking = signal(false);
export const problem = signal<string | undefined>(undefined);

/** What the model makes of texts. */
export interface Embedded {
  readonly texts: readonly string[];
  /** A vector each; of a classifier its scores. */
  readonly vectors: readonly (readonly number[])[];
  readonly promptTokens: number;
}

export const embedded = signal<Embedded | undefined>(undefined);

/** What is asked just now. */
let asked: AbortController | undefined;

/** What was asked is nobody else's to read. */
export function forgetTexts(): void {
  asked?.abort();
  asked = undefined;
  lines.value = EXAMPLE;
  asking.value = false;
  problem.value = undefined;
  embedded.value = undefined;
}

/** Asks the relay for the vectors of the lines that are there. */
export async function embedLines(): Promise<void> {
  const texts = lines.value
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  if (asking.value || texts.length === 0) return;
  const own = new AbortController();
  asked = own;
  asking.value = true;
  problem.value = undefined;
  try {
    const fetch = viewerAccess().ask;
    const transport = createGrpcWebTransport({ baseUrl: location.origin, fetch });
    const client = createClient(SglangScheduler, transport);
    const { response } = await client.embed({ texts }, { timeoutMs: BOUND_MS, signal: own.signal });
    if (asked !== own) return;
    if (response.case !== 'complete') throw new Error('The relay answered without a result.');
    const { embedding, batchEmbeddings, promptTokens } = response.value;
    const vectors = batchEmbeddings.length > 0 ? batchEmbeddings.map(({ values }) => values) : [embedding];
    embedded.value = { texts, vectors, promptTokens };
  } catch (error) {
    if (asked === own) problem.value = ConnectError.from(error).rawMessage;
  } finally {
    if (asked === own) asking.value = false;
  }
}
