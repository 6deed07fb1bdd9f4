/** `promise`, or a rejection with `message` after `ms`; nothing of it is kept once it settles. */
export function settledWithin<T>(ms: number, promise: Promise<T>, message: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(message)), ms);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
