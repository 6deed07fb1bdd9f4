import { StoreError } from './byte-file.ts';

/** A browser that asks its user for consent, or whose disk hangs, may never answer. */
export const ANSWER_MS = 20_000;

/** Rejects with StoreError where an answer doesn't come in time; one that comes later is given to `late`. */
export async function within<T>(answer: Promise<T>, ms: number, late?: (answer: T) => void): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const over = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new StoreError(`the browser doesn't answer about its files for this page within ${ms / 1000} s`));
      // One that fails by then has been told of.
      if (late) answer.then(late, () => {});
    }, ms);
  });
  try {
    return await Promise.race([answer, over]);
  } finally {
    clearTimeout(timer);
  }
}
