/** A stop string, and its UTF-8 bytes as a string of one character each. */
export interface StopString {
  readonly text: string;
  readonly bytes: string;
}

/** What ends the samples of one request. There may be a vocabulary of ids and megabytes of texts: samples share it. */
export class Stops {
  readonly tokens: ReadonlySet<number>;
  readonly strings: readonly StopString[];
  /** Bytes of an output that a match which isn't whole yet may begin in. */
  readonly keptBytes: number;

  constructor(tokenIds: readonly number[], texts: readonly string[]) {
    const utf8 = new TextEncoder();
    this.tokens = new Set(tokenIds);
    this.strings = texts.map((text) => ({ text, bytes: byteString(utf8.encode(text)) }));
    this.keptBytes = Math.max(0, ...this.strings.map(({ bytes }) => bytes.length - 1));
  }
}

/** Arguments that a call may have. */
const AT_A_TIME = 4096;

export function byteString(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += AT_A_TIME) {
    text += String.fromCharCode(...bytes.subarray(at, at + AT_A_TIME));
  }
  return text;
}
