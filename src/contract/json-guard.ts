import { Code } from '@connectrpc/connect';
import { ContractError } from './contract-error.ts';

export interface JsonLimits {
  /** Values and keys together. */
  readonly maxElements: number;
  readonly maxDepth: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;

/**
 * Bounds what parsing a JSON text can cost, before it is parsed: counts separators and nesting outside strings.
 * Returns the count. It doesn't judge whether the text is JSON. Throws ContractError (INVALID_ARGUMENT).
 */
export function guardJson(bytes: Uint8Array, limits: JsonLimits): number {
  let elements = 1;
  let depth = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      at = endOfString(bytes, at + 1);
    } else if (byte === COMMA || byte === COLON) {
      if (++elements > limits.maxElements) throw excess(`holds more than ${limits.maxElements} elements.`);
    } else if (byte === 0x7b || byte === 0x5b) {
      if (++elements > limits.maxElements) throw excess(`holds more than ${limits.maxElements} elements.`);
      if (++depth > limits.maxDepth) throw excess(`is nested over ${limits.maxDepth} deep.`);
    } else if (byte === 0x7d || byte === 0x5d) depth--;
  }
  return elements;
}

/** Index of the quote that ends a string which starts at `from`, or of the end of the text. */
function endOfString(bytes: Uint8Array, from: number): number {
  for (let at = from; at < bytes.length; at++) {
    if (bytes[at] === BACKSLASH) at++;
    else if (bytes[at] === QUOTE) return at;
  }
  return bytes.length;
}

function excess(rule: string): ContractError {
  return new ContractError(Code.InvalidArgument, `The JSON message ${rule}`);
}
