/** Repeats each line of a shader that holds a `$`, with 0, 1, 2 … in its place; comments stay as they are. */
export function unroll(code: string, times: number): string {
  return code
    .split('\n')
    .flatMap((line) =>
      line.includes('$') && !line.trimStart().startsWith('//')
        ? Array.from({ length: times }, (_, i) => line.replaceAll('$', String(i)))
        : [line],
    )
    .join('\n');
}
