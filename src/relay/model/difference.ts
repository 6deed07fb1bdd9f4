import { isDeepStrictEqual } from 'node:util';
import { isGgmlType } from '../../checkpoint/ggml-types.ts';
import type { ServedModel } from '../served-model.ts';

/** Keys of config.json that say how it was saved, and nothing of what is computed. */
const NOTES = new Set(['_name_or_path', 'transformers_version', 'torch_dtype', 'dtype', 'use_cache']);
/** Of a value in a message. */
const MOST_SHOWN = 80;

/**
 * In what `next` differs from `served` so that its weights can't take the place of the others: the first difference, as the end of a
 * sentence that begins with what it holds. Undefined: in nothing but its weights.
 */
export function differenceOf(next: ServedModel, served: ServedModel): string | undefined {
  const [own, other] = [formatOf(next), formatOf(served)];
  if (own !== other) return `${own}, and what is served ${other}`;
  return configDifference(next, served) ?? filesDifference(next, served) ?? tensorDifference(next, served);
}

function formatOf({ paths }: ServedModel): string {
  return Object.keys(paths).some((name) => name.endsWith('.gguf')) ? 'a .gguf file' : 'safetensors';
}

function configDifference(next: ServedModel, served: ServedModel): string | undefined {
  const [own, other] = [next.about.config, served.about.config];
  const keys = [...new Set([...Object.keys(other), ...Object.keys(own)])].filter((key) => !NOTES.has(key));
  const key = keys.find((one) => !isDeepStrictEqual(own[one], other[one]));
  return key === undefined
    ? undefined
    : `${key} ${shown(own[key])} in its config, and what is served ${shown(other[key])}`;
}

/** What other files say: which ids end a text, how a vector is made, how ids are made of a text. */
function filesDifference(next: ServedModel, served: ServedModel): string | undefined {
  for (const [said, name] of [
    ['eosTokenIds', 'eos_token_id'],
    ['bosTokenId', 'bos_token_id'],
    ['padTokenId', 'pad_token_id'],
  ] as const) {
    if (!isDeepStrictEqual(next[said], served[said]))
      return `${name} ${shown(next[said])}, and what is served ${shown(served[said])}`;
  }
  const vectorsOf = ({ task, vectors, pooling }: ServedModel) => [task, vectors, pooling];
  if (!isDeepStrictEqual(vectorsOf(next), vectorsOf(served))) return 'files that make its vectors in another way';
  const [own, other] = [next.tokenizerHashes, served.tokenizerHashes];
  const names = [...new Set([...Object.keys(other), ...Object.keys(own)])].sort();
  const file = names.find((name) => own[name] !== other[name]);
  if (file === undefined) return undefined;
  if (own[file] === undefined) return `no ${file}, which is of the tokenizer that is served`;
  return other[file] === undefined
    ? `${file}, which the tokenizer that is served has not`
    : `another ${file} than the tokenizer that is served`;
}

function tensorDifference({ tensors: own }: ServedModel, { tensors: other }: ServedModel): string | undefined {
  if (!own) return "tensors that can't be read";
  // What can't be read was served from the start: nobody knows what would differ.
  if (!other) return undefined;
  for (const [name, tensor] of other) {
    const found = own.get(name);
    if (!found) return `no ${name}`;
    if (!isDeepStrictEqual(found.shape, tensor.shape))
      return `${name} of shape [${found.shape}], and what is served [${tensor.shape}]`;
    // Nodes read those of GGML, floats among them, in each other's place.
    if (found.dtype !== tensor.dtype && !isGgmlType(found.dtype))
      return `${name} in ${found.dtype}, and what is served ${tensor.dtype}`;
  }
  const more = [...own.keys()].find((name) => !other.has(name));
  return more === undefined ? undefined : `${more}, which what is served has not`;
}

function shown(value: unknown): string {
  return value === undefined ? '(none)' : JSON.stringify(value).slice(0, MOST_SHOWN);
}
