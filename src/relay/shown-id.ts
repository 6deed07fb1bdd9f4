/** Characters of a client's id that are shown. */
const MOST_SHOWN = 200;

/**
 * What logs and operators see of a request's id. A copy: a part of a string keeps the whole of it, and what is shown is
 * remembered longer than the request.
 */
export function shownId(requestId: string): string {
  // No half of a surrogate pair.
  const cut = /[\uD800-\uDBFF]/.test(requestId.charAt(MOST_SHOWN - 1)) ? MOST_SHOWN - 1 : MOST_SHOWN;
  return Buffer.from(requestId.slice(0, cut)).toString();
}
