/**
 * The one byte range a Range header asks for, first and last byte, both inclusive (RFC 9110 §14). Undefined where the
 * whole file is to be sent: without a header, for one that is malformed, or for several ranges at once.
 */
export function parseRange(header: string | undefined, size: number): [number, number] | 'unsatisfiable' | undefined {
  const match = header === undefined ? null : /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header.trim());
  if (!match) return undefined;
  const [, from = '', to = ''] = match;
  if (from === '') {
    if (to === '') return undefined;
    const last = Math.min(Number(to), size);
    return last === 0 ? 'unsatisfiable' : [size - last, size - 1];
  }
  if (to !== '' && Number(to) < Number(from)) return undefined;
  if (Number(from) >= size) return 'unsatisfiable';
  return [Number(from), to === '' ? size - 1 : Math.min(Number(to), size - 1)];
}
