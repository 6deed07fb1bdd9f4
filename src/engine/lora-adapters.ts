import type { FailureCode } from '../contract/failure-codes.ts';
import type { AdapterFiles } from '../model/read-adapter.ts';
import type { Runner } from '../model/runner.ts';
import { kvRootOf } from './kv-root.ts';
import type { LoadedLora, LoraCounts } from './lora-counts.ts';
import type { Refusal } from './refusal.ts';
import type { EngineRequest } from './request.ts';
import { settledWithin } from './settled-within.ts';

/** How long an adapter that is to go waits for the sequences that use it. */
const UNLOAD_PATIENCE_MS = 30_000;

/** A LoRA adapter to load. */
export interface LoraFiles extends AdapterFiles {
  /** What requests call it. */
  readonly id: string;
}

/** Codes of a runner's errors, by their names. */
const CODES: Readonly<Record<string, FailureCode>> = {
  CheckpointError: 'invalid_argument',
  AllocationError: 'resource_exhausted',
  RunnerLostError: 'unavailable',
};

/** An adapter couldn't be loaded or unloaded; the message names it. */
export class LoraError extends Error {
  override readonly name = 'LoraError';
  readonly code: FailureCode;

  constructor(code: FailureCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

interface Entry {
  readonly id: string;
  readonly slot: number;
  readonly version: number;
  rank: number;
  requests: number;
  state: 'loading' | 'ready' | 'leaving';
  readonly holds: Set<LoraHold>;
  /** Called when the last hold is gone. */
  idle: () => void;
}

/** A sequence's hold on its adapter, which stays in its slot until it is released. */
export class LoraHold {
  readonly slot: number;
  readonly version: number;
  readonly #release: (hold: LoraHold) => void;

  constructor({ slot, version }: Pick<Entry, 'slot' | 'version'>, release: (hold: LoraHold) => void) {
    this.slot = slot;
    this.version = version;
    this.#release = release;
  }

  /** More than once does no harm. */
  release(): void {
    this.#release(this);
  }
}

/** The adapters of an engine: which slots they are in, and who uses them. */
export class LoraAdapters {
  readonly #runner: Runner;
  readonly #onUnloaded: (kvRoot: string) => void;
  readonly #entries = new Map<string, Entry>();
  readonly #freeSlots: number[];
  #versions = 0;

  /** `onUnloaded` is told whose prefixes nobody will ask for again. */
  constructor(runner: Runner, onUnloaded: (kvRoot: string) => void) {
    this.#runner = runner;
    this.#onUnloaded = onUnloaded;
    const slots = runner.loadAdapter ? (runner.limits.maxAdapters ?? 0) : 0;
    this.#freeSlots = Array.from({ length: slots }, (_, i) => slots - 1 - i);
  }

  get slots(): number {
    return this.#freeSlots.length + this.#entries.size;
  }

  /** Those that requests may name, in the order they were loaded in. */
  list(): readonly LoadedLora[] {
    return [...this.#entries.values()]
      .filter(({ state }) => state !== 'loading')
      .sort((a, b) => a.version - b.version)
      .map(described);
  }

  /** Rejects with LoraError: of an id that is taken, without a free slot, of files that aren't served, without memory. */
  async load({ id, ...files }: LoraFiles): Promise<LoadedLora> {
    if (id === '') throw new LoraError('invalid_argument', 'an adapter needs an id');
    if (this.slots === 0) throw new LoraError('unimplemented', 'LoRA adapters are not served here');
    if (this.#entries.has(id))
      throw new LoraError('invalid_argument', `adapter ${JSON.stringify(id)} is loaded already`);
    const slot = this.#freeSlots.pop();
    if (slot === undefined) {
      throw new LoraError('resource_exhausted', `all ${this.slots} adapter slots are taken: unload another first`);
    }
    const entry: Entry = {
      ...{ id, slot, version: ++this.#versions, rank: 0, requests: 0, state: 'loading', holds: new Set() },
      idle: () => {},
    };
    this.#entries.set(id, entry);
    try {
      entry.rank = (await this.#runner.loadAdapter!(slot, files)).rank;
    } catch (error) {
      this.#forget(entry);
      const { name, message } = error as Error;
      throw new LoraError(CODES[name] ?? 'internal', `adapter ${JSON.stringify(id)}: ${message}`, { cause: error });
    }
    entry.state = 'ready';
    return described(entry);
  }

  /**
   * Frees an adapter's slot once no sequence uses it; requests that name it are refused from now on. Gives what it was.
   * Rejects with LoraError where there is none, or where sequences still use it after `patienceMs`: it stays loaded then.
   */
  async unload(id: string, patienceMs = UNLOAD_PATIENCE_MS): Promise<LoadedLora> {
    const entry = this.#entries.get(id);
    if (entry?.state !== 'ready') {
      const what = entry ? `is ${entry.state}` : 'is not loaded';
      throw new LoraError('invalid_argument', `adapter ${JSON.stringify(id)} ${what}`);
    }
    entry.state = 'leaving';
    if (entry.holds.size > 0) {
      const idle = new Promise<void>((resolve) => {
        entry.idle = resolve;
      });
      try {
        await settledWithin(patienceMs, idle, 'it is in use');
      } catch {
        entry.state = 'ready';
        const used = `adapter ${JSON.stringify(id)} is still used by ${entry.holds.size} sequences`;
        throw new LoraError('unavailable', used);
      }
    }
    this.#forget(entry);
    this.#onUnloaded(kvRootOf(entry.version));
    return described(entry);
  }

  /** Undefined where none are served. */
  get counts(): LoraCounts | undefined {
    return this.slots === 0 ? undefined : { slots: this.slots, adapters: this.list() };
  }

  /** Why a request can't have the adapter that it names. */
  refusal({ loraId: id }: Pick<EngineRequest, 'loraId'>): Refusal | undefined {
    if (id === undefined) return undefined;
    if (this.slots === 0) return { code: 'unimplemented', message: 'lora_id is not served here' };
    if (this.#entries.get(id)?.state === 'ready') return undefined;
    return { code: 'invalid_argument', message: `lora_id ${JSON.stringify(id)} names no loaded adapter` };
  }

  /** Counts a request that `refusal` lets pass, and holds its adapter for each of its samples; none: it names none. */
  hold({ loraId, samples }: Pick<EngineRequest, 'loraId' | 'samples'>): readonly LoraHold[] {
    if (loraId === undefined) return [];
    const entry = this.#entries.get(loraId)!;
    entry.requests++;
    return samples.map(() => {
      const hold = new LoraHold(entry, (own) => {
        entry.holds.delete(own);
        if (entry.holds.size === 0) entry.idle();
      });
      entry.holds.add(hold);
      return hold;
    });
  }

  #forget({ id, slot }: Entry): void {
    this.#entries.delete(id);
    this.#freeSlots.push(slot);
  }
}

function described({ id, version, rank, requests, holds }: Entry): LoadedLora {
  return { id, version, rank, requests, sequences: holds.size };
}
