/** Where a tuner keeps texts by key. What it can't read or write counts as not there: then everything is tried again. */
export interface TunerStore {
  get(key: string): Promise<string | undefined>;
  set(key: string, text: string): Promise<void>;
  delete(key: string): Promise<void>;
  /** Runs `act` while nobody else with this store does, or once `waiting` aborts. Absent: nobody else has it. */
  exclusively?<T>(act: () => Promise<T>, waiting: AbortSignal): Promise<T>;
}
