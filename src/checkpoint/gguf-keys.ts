import type { Gguf } from './gguf.ts';
import type { GgufMetadata } from './gguf-metadata.ts';

/**
 * Reads the metadata of one architecture, and knows which keys it has read, so that none is left that would change the
 * model. Every method throws CheckpointError naming file and key.
 */
export class GgufKeys {
  readonly gguf: Gguf;
  readonly #metadata: GgufMetadata;
  readonly #prefix: string;
  readonly #read = new Set<string>();

  constructor(gguf: Gguf, architecture: string) {
    this.gguf = gguf;
    this.#metadata = gguf.metadata;
    this.#prefix = `${architecture}.`;
  }

  fail(key: string, reason: string): never {
    return this.#metadata.fail(this.#prefix + key, reason);
  }

  count(key: string): number | undefined {
    return this.#metadata.count(this.#name(key));
  }

  string(key: string): string | undefined {
    return this.#metadata.string(this.#name(key));
  }

  /** A list of them; undefined where the key is absent or has a single value. */
  booleans(key: string): readonly boolean[] | undefined {
    return this.#metadata.booleans(this.#name(key));
  }

  /** Refuses any other text than `value`, but absence. */
  only(key: string, value: string): void {
    const own = this.string(key);
    if (own !== undefined && own !== value) this.fail(key, `is ${JSON.stringify(own)}; only ${value} is known`);
  }

  boolean(key: string): boolean | undefined {
    return this.#metadata.boolean(this.#name(key));
  }

  /** Singles are given as the shortest decimal that is the same single: config.json's 1e-5 for 9.999999747378752e-6. */
  number(key: string): number | undefined {
    const value = this.#metadata.number(this.#name(key));
    return value === undefined ? undefined : shortest(value);
  }

  neededNumber(key: string): number {
    return this.number(key) ?? this.fail(key, 'is missing');
  }

  optionalSize(key: string): number | undefined {
    const value = this.count(key);
    return value === 0 ? this.fail(key, 'is 0, not a size') : value;
  }

  size(key: string): number {
    return this.optionalSize(key) ?? this.fail(key, 'is missing');
  }

  /** Refuses any other number than `value`, but absence. */
  same(key: string, value: number, what: string): void {
    const own = this.number(key);
    if (own !== undefined && own !== value) this.fail(key, `is ${own}; only ${what}, ${value}, is known`);
  }

  refuseOthers(): void {
    for (const key of this.#metadata.keys) {
      if (key.startsWith(this.#prefix) && !this.#read.has(key)) this.#metadata.fail(key, 'is not known');
    }
  }

  #name(key: string): string {
    const name = this.#prefix + key;
    this.#read.add(name);
    return name;
  }
}

function shortest(value: number): number {
  for (let digits = 1; digits <= 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}
