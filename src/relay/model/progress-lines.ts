/** The least time between two lines. */
const LINE_MS = 5_000;

/** Makes lines of counts of bytes, one now and then; what is done within seconds makes none. */
export function progressLines(
  what: string,
  write: (line: string) => void,
): (doneBytes: number, totalBytes: number) => void {
  let last = performance.now();
  return (doneBytes, totalBytes) => {
    const now = performance.now();
    if (now - last < LINE_MS) return;
    last = now;
    const share = Math.floor((100 * doneBytes) / Math.max(totalBytes, 1));
    write(`${what}: ${share} % of ${(totalBytes / 1e6).toFixed(1)} MB`);
  };
}
