/**
 * In @mlc-ai/web-xgrammar 0.1.27, where `FSMWithStartEnd::MergeEquivalentSuccessors` begins: bytes of states − … 1,200,001
 * ≥ if: with that many it leaves an automaton as it is.
 */
const BEGINS = [0x6b, 0x41, 0x81, 0x9f, 0xc9, 0x00, 0x4e, 0x04, 0x40];
/** The same with 0 for the number. */
const NEVER = [0x6b, 0x41, 0x80, 0x80, 0x80, 0x00, 0x4e, 0x04, 0x40];

/**
 * The library's code without its merging of states, which takes states for equal that aren't
 * (https://github.com/mlc-ai/xgrammar/pull/632 and 911): of "cdx", "abx" and "abz" it lets "cdz" through. Automata are
 * minimised behind it all the same. Throws where it isn't the code that is known.
 */
export function withoutMerging(code: Uint8Array): Uint8Array {
  const at = indexOf(code, BEGINS, 0);
  if (at < 0 || indexOf(code, BEGINS, at + 1) >= 0) throw new Error('the grammar library is of another version');
  const exact = code.slice();
  exact.set(NEVER, at);
  return exact;
}

function indexOf(bytes: Uint8Array, part: readonly number[], from: number): number {
  for (let at = bytes.indexOf(part[0]!, from); at >= 0; at = bytes.indexOf(part[0]!, at + 1)) {
    if (part.every((byte, i) => bytes[at + i] === byte)) return at;
  }
  return -1;
}
