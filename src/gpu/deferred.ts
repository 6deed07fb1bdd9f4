/** A promise and what settles it. */
export function deferred(): { readonly promise: Promise<void>; readonly settle: () => void } {
  let settle: () => void = () => {};
  const promise = new Promise<void>((resolve) => {
    settle = resolve;
  });
  return { promise, settle };
}
