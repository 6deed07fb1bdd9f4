/** A model that this browser keeps, as far as it has come. */
export interface KeptModel {
  readonly digest: string;
  readonly name: string;
  readonly storedBytes: number;
  readonly totalBytes: number;
  /** Milliseconds since 1970. */
  readonly usedAt: number;
  /** A tab has it open: it can't be deleted. */
  readonly inUse: boolean;
}

export interface StoreRoom {
  /** Bytes that this site may keep in all, and has kept; undefined where the browser doesn't tell. */
  readonly quota: number | undefined;
  readonly usage: number | undefined;
}

/** How far a model's download is. */
export interface StoreProgress {
  /** Of the model's files, in the store. */
  readonly loadedBytes: number;
  readonly totalBytes: number;
  /** Another tab downloads, and this one waits. */
  readonly byOtherTab: boolean;
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
