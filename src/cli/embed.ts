import { cosine } from '../contract/cosine.ts';
import { CliError } from './errors.ts';
import { asCliError, connectScheduler } from './scheduler-client.ts';
import type { HostPort } from './values.ts';

export interface EmbedFlags {
  readonly relay: HostPort;
  readonly json: boolean;
  /** The texts are pairs that a cross-encoder scores. */
  readonly pairs: boolean;
}

/** The vectors themselves take as long as the relay gives them. */
const INFO_BOUND_MS = 10_000;

/**
 * Asks the relay for vectors of texts. One text's is printed as numbers; of several how alike each two are (cosines), or with
 * `--json` the vectors; of a classifier, or of pairs, the scores.
 */
export async function embed(
  texts: readonly string[],
  { relay, json, pairs }: EmbedFlags,
  write: (text: string) => void,
  signal?: AbortSignal,
): Promise<void> {
  const client = await connectScheduler(relay);
  try {
    const options = { ...(signal ? { signal } : {}) };
    const { numLabels, id2labelJson } = await client.getModelInfo({}, { ...options, timeoutMs: INFO_BOUND_MS });
    const answer = await client.embed({ texts: [...texts], isCrossEncoder: pairs }, options);
    if (answer.response.case !== 'complete') throw new CliError('the relay answered without a result.');
    const { embedding, promptTokens, embeddingDim, batchEmbeddings } = answer.response.value;
    const vectors = batchEmbeddings.length > 0 ? batchEmbeddings.map(({ values }) => values) : [embedding];
    if (json) write(`${JSON.stringify({ embeddings: vectors, dimension: embeddingDim, promptTokens })}\n`);
    else if (numLabels > 0) write(scores(vectors, id2labelJson));
    else
      write(vectors.length > 1 ? similarities(vectors) : `${vectors[0]!.map((value) => value.toFixed(6)).join(' ')}\n`);
  } catch (error) {
    if (signal?.aborted) throw new CliError('stopped.', 130);
    throw asCliError(error, relay);
  }
}

/** A line for each text, or pair: its classes and what they scored. */
function scores(vectors: readonly (readonly number[])[], id2labelJson: string): string {
  const labels = JSON.parse(id2labelJson || '{}') as Record<string, string>;
  return vectors
    .map((values, at) => {
      const told = values.map((value, id) => `${labels[id] ?? id} ${value.toFixed(4)}`);
      return `${at + 1}: ${told.join(', ')}\n`;
    })
    .join('');
}

/** Cosines of all pairs, a row for each text. */
function similarities(vectors: readonly (readonly number[])[]): string {
  return vectors.map((row) => `${vectors.map((other) => cosine(row, other).toFixed(4)).join(' ')}\n`).join('');
}
