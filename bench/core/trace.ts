/** A request of a trace, scaled to what a small model's context holds. */
export interface TraceRequest {
  /** Milliseconds from the start. */
  readonly at: number;
  /** Tokens of the prompt. */
  readonly input: number;
  readonly output: number;
  /** One for each block of the prompt, the last of which may be partial: equal ids are equal tokens. */
  readonly hashes: readonly number[];
}

export interface Trace {
  readonly requests: readonly TraceRequest[];
  /** Tokens that a hash stands for. */
  readonly block: number;
}

/** Tokens that a hash stands for in the published traces (Mooncake, FAST '25). */
const MOONCAKE_BLOCK = 512;
/** A block of the KV pool: a smaller share of a prompt is copied, not shared. */
const LEAST_BLOCK = 4;

/**
 * Reads lines of `{"timestamp", "input_length", "output_length", "hash_ids"}`. Lengths shrink as blocks do: by default
 * so far that the longest request fits `context`. Throws naming the line.
 */
export function readTrace(text: string, context: number, block?: number): Trace {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const raw = lines.map(parseLine);
  const longest = Math.max(...raw.map(({ input_length, output_length }) => input_length + output_length));
  const fitting = Math.floor((MOONCAKE_BLOCK * (context - 1)) / longest);
  const size = block ?? Math.max(LEAST_BLOCK, Math.min(MOONCAKE_BLOCK, fitting));
  const scale = size / MOONCAKE_BLOCK;
  const requests = raw.map(({ timestamp, input_length, output_length, hash_ids }, i) => {
    const input = Math.max(1, Math.round(input_length * scale));
    const output = Math.max(1, Math.round(output_length * scale));
    if (input + output > context)
      throw new Error(`trace line ${i + 1}: ${input} + ${output} tokens are over the context of ${context}`);
    return { at: timestamp, input, output, hashes: hash_ids };
  });
  return { requests: requests.sort((a, b) => a.at - b.at), block: size };
}

interface RawLine {
  readonly timestamp: number;
  readonly input_length: number;
  readonly output_length: number;
  readonly hash_ids: readonly number[];
}

function parseLine(line: string, i: number): RawLine {
  const fail = (reason: string): never => {
    throw new Error(`trace line ${i + 1}: ${reason}`);
  };
  let raw: RawLine;
  try {
    raw = JSON.parse(line) as RawLine;
  } catch {
    return fail('not JSON');
  }
  for (const key of ['timestamp', 'input_length', 'output_length'] as const) {
    if (typeof raw[key] !== 'number' || !(raw[key] >= 0)) fail(`${key} is ${JSON.stringify(raw[key])}`);
  }
  if (!Array.isArray(raw.hash_ids) || raw.hash_ids.length !== Math.ceil(raw.input_length / MOONCAKE_BLOCK)) {
    fail(`hash_ids has not one entry for each ${MOONCAKE_BLOCK} input tokens`);
  }
  return raw;
}

/** The prompt's ids: a block's follow from its hash, wherever it stands. */
export function promptOf({ input, hashes }: TraceRequest, block: number, vocabSize: number): number[] {
  return Array.from({ length: input }, (_, i) => {
    const hash = hashes[Math.min(hashes.length - 1, Math.floor(i / block))]!;
    let bits = Math.imul(hash + 1, 0x9e3779b1) ^ Math.imul(i % block, 0x85ebca6b);
    bits = Math.imul(bits ^ (bits >>> 15), 0xc2b2ae35);
    return 3 + (((bits ^ (bits >>> 13)) >>> 0) % (vocabSize - 3));
  });
}
