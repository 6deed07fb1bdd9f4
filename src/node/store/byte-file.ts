/** Bytes that are kept, as a sync access handle gives them. What fails throws StoreError. */
export interface ByteFile {
  /** In bytes. */
  size(): number;
  /** Fills `into` from `at`; returns how many bytes there were. */
  read(into: Uint8Array, at: number): number;
  /** Writes all of `bytes` at `at`; the file grows as far as it must. */
  write(bytes: Uint8Array, at: number): void;
  close(): void;
}

/** A folder of files that the browser keeps for this page. What fails rejects with StoreError. */
export interface ByteFolder {
  /** Whether a file can be open several times at once, in several tabs. */
  readonly shares: boolean;
  /** Creates it where it isn't there. */
  open(name: string): Promise<ByteFile>;
  /** Sizes by name. */
  list(): Promise<ReadonlyMap<string, number>>;
  /** All of it, be it open or not; undefined where it isn't there. */
  readBytes(name: string): Promise<Uint8Array | undefined>;
  /** Undefined where it isn't there. */
  readText(name: string): Promise<string | undefined>;
  /** Whoever reads meanwhile, or after a crash, finds the old text or the new one, both whole. */
  writeText(name: string, text: string): Promise<void>;
  /** False where someone has it open. */
  remove(name: string): Promise<boolean>;
}

/** The browser keeps no files for this page, or no longer, or has no room: a model is to be loaded without. */
export class StoreError extends Error {
  override readonly name: string = 'StoreError';
}

/** There is no room for what is written; what was written stays. */
export class StoreFullError extends StoreError {
  override readonly name = 'StoreFullError';
}
