import { CheckpointError } from './checkpoint.ts';

/** What each token id adds to the output, as bytes: a token may end inside a character. */
export interface TokenBytes {
  readonly vocabSize: number;
  /** Empty for ids that tokenizer.json does not know. */
  bytes(id: number): Uint8Array;
  /** A control token, such as BOS, left out of text on request. */
  isSpecial(id: number): boolean;
  /** Spaces that the decoder takes off the start of a text. */
  readonly stripStart: number;
}

interface Decoder {
  readonly type: string;
  readonly pattern?: { readonly String?: string };
  readonly content?: string;
  readonly start?: number;
  readonly stop?: number;
  readonly decoders?: readonly Decoder[];
  readonly replacement?: string;
  readonly prepend_scheme?: string;
  readonly add_prefix_space?: boolean;
}

/**
 * Reads the token texts of a Hugging Face tokenizer.json and undoes its decoder token by token.
 * Known decoders: ByteLevel, Metaspace, and sequences of Replace, ByteFallback, Fuse and Strip, which cover the
 * byte-level and SentencePiece families. Throws CheckpointError naming a decoder it does not know.
 */
export function readTokenBytes(tokenizerJson: string, file: string): TokenBytes {
  let json: TokenizerParts;
  try {
    json = JSON.parse(tokenizerJson) as TokenizerParts;
  } catch (error) {
    throw new CheckpointError(`${file}: not JSON (${(error as Error).message})`);
  }
  return tokenBytes(json, file);
}

/** What of tokenizer.json says which bytes a token is. */
export interface TokenizerParts {
  /** Ids of tokens, or the tokens with their scores in the order of ids. */
  readonly model?: { readonly vocab?: Readonly<Record<string, number>> | readonly (readonly [string, number])[] };
  readonly decoder?: Readonly<Record<string, unknown>> | null;
  readonly added_tokens?: readonly { readonly id: number; readonly content: string; readonly special: boolean }[];
}

/** As readTokenBytes, of what is parsed already. */
export function tokenBytes(json: TokenizerParts, file: string): TokenBytes {
  const fail = (reason: string): never => {
    throw new CheckpointError(`${file}: ${reason}`);
  };
  const vocab = json.model?.vocab ?? fail('model.vocab is missing');
  const toBytes = tokenDecoder((json.decoder ?? null) as Decoder | null, fail);

  const table: Uint8Array[] = [];
  if (Array.isArray(vocab)) {
    vocab.forEach(([token], id) => {
      table[id] = toBytes.bytes(token);
    });
  } else {
    for (const [token, id] of Object.entries(vocab)) table[id] = toBytes.bytes(token);
  }
  const special = new Set<number>();
  const utf8 = new TextEncoder();
  for (const added of json.added_tokens ?? []) {
    // They go through the decoder too: Gemma's runs of ▁ are spaces. Byte-level ones are texts as they stand.
    table[added.id] = toBytes.isByteLevel ? utf8.encode(added.content) : toBytes.bytes(added.content);
    if (added.special) special.add(added.id);
  }
  const none = new Uint8Array(0);
  return {
    vocabSize: table.length,
    bytes: (id) => table[id] ?? none,
    isSpecial: (id) => special.has(id),
    stripStart: toBytes.stripStart,
  };
}

interface TokenDecoder {
  readonly isByteLevel: boolean;
  bytes(token: string): Uint8Array;
  readonly stripStart: number;
}

function tokenDecoder(decoder: Decoder | null, fail: (reason: string) => never): TokenDecoder {
  const utf8 = new TextEncoder();
  if (decoder === null) return { isByteLevel: false, bytes: (token) => utf8.encode(token), stripStart: 0 };
  const steps = decoder.type === 'Sequence' ? (decoder.decoders ?? []) : [decoder];
  if (steps.some((step) => step.type === 'ByteLevel')) {
    const byteOf = byteLevelAlphabet();
    const bytes = (token: string) => {
      const out: number[] = [];
      for (const char of token) {
        const byte = byteOf.get(char);
        // Characters outside the alphabet stand for themselves, as in the reference decoder.
        if (byte === undefined) out.push(...utf8.encode(char));
        else out.push(byte);
      }
      return Uint8Array.from(out);
    };
    return { isByteLevel: true, bytes, stripStart: 0 };
  }
  const replaced: [string, string][] = [];
  let byteFallback = false;
  let stripStart = 0;
  for (const step of steps) {
    if (step.type === 'Replace' && step.pattern?.String !== undefined) {
      replaced.push([step.pattern.String, step.content ?? '']);
    } else if (step.type === 'ByteFallback') {
      byteFallback = true;
    } else if (step.type === 'Strip' && step.content === ' ' && !step.stop) {
      stripStart += step.start ?? 0;
    } else if (step.type === 'Metaspace') {
      replaced.push([step.replacement ?? '▁', ' ']);
      if (step.prepend_scheme !== 'never' && step.add_prefix_space !== false) stripStart += 1;
    } else if (step.type !== 'Fuse') {
      fail(`the decoder ${JSON.stringify(step)} is not known`);
    }
  }
  const bytes = (token: string) => {
    if (byteFallback) {
      const hex = /^<0x([0-9A-Fa-f]{2})>$/.exec(token);
      if (hex) return Uint8Array.of(Number.parseInt(hex[1]!, 16));
    }
    return utf8.encode(replaced.reduce((text, [from, to]) => text.replaceAll(from, to), token));
  };
  return { isByteLevel: false, bytes, stripStart };
}

/** GPT-2's printable stand-ins for bytes: https://github.com/openai/gpt-2/blob/master/src/encoder.py */
function byteLevelAlphabet(): ReadonlyMap<string, number> {
  const printable = (byte: number) =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
  const alphabet = new Map<string, number>();
  let extra = 0;
  for (let byte = 0; byte < 256; byte++) {
    alphabet.set(String.fromCodePoint(printable(byte) ? byte : 256 + extra++), byte);
  }
  return alphabet;
}
