import { readFileSync } from 'node:fs';
import { InvalidArgumentError } from 'commander';
import { messageOf } from './errors.ts';

const MAX_FLOAT32 = 3.4028234663852886e38;

/** A float of the proto; whether it is in the parameter's range is for the relay to say. */
export function parseFloat32(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || Math.abs(value) > MAX_FLOAT32) {
    throw new InvalidArgumentError('it must be a number.');
  }
  return value;
}

/** An int32 of the proto. */
export function parseInteger(text: string): number {
  const value = Number(text);
  if (!/^-?\d+$/.test(text) || value < -0x8000_0000 || value > 0x7fff_ffff) {
    throw new InvalidArgumentError('it must be a whole number from -2147483648 to 2147483647.');
  }
  return value;
}

/** `5` or `5,7,9`; given again it adds to `before`. */
export function parseIds(text: string, before: readonly number[] = []): number[] {
  const ids = text.split(',');
  if (!ids.every((id) => /^\d{1,10}$/.test(id) && Number(id) <= 0xffff_ffff)) {
    throw new InvalidArgumentError('it must be token ids, such as 5 or 5,7,9.');
  }
  return [...before, ...ids.map(Number)];
}

/** `ID=VALUE`; given again it adds to `before`, and the last value of an id counts. */
export function parseBias(text: string, before: Readonly<Record<string, number>> = {}): Record<string, number> {
  const match = /^(\d{1,10})=(.+)$/.exec(text);
  const bias = match ? Number(match[2]) : Number.NaN;
  if (!match || match[2]!.trim() === '' || !(Math.abs(bias) <= MAX_FLOAT32)) {
    throw new InvalidArgumentError('it must be ID=VALUE, such as 426=-100.');
  }
  return { ...before, [String(Number(match[1]))]: bias };
}

export function addText(text: string, before: readonly string[] = []): string[] {
  return [...before, text];
}

/** The text itself, or what the file holds after an @. */
export function parseText(text: string): string {
  if (!text.startsWith('@')) return text;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(readFileSync(text.slice(1)));
  } catch (error) {
    throw new InvalidArgumentError(`the file cannot be read: ${messageOf(error)}.`);
  }
}

/** JSON, or a file that holds it after an @. */
export function parseJson(text: string): unknown {
  const json = parseText(text);
  try {
    return JSON.parse(json);
  } catch (error) {
    throw new InvalidArgumentError(`that is no JSON: ${messageOf(error)}.`);
  }
}

/** A JSON array of numbers, or of rows of numbers. */
export function parseFloats(text: string): number[] {
  const value = parseJson(text);
  const floats: unknown[] = Array.isArray(value) ? value.flat() : [];
  if (!floats.every((each) => typeof each === 'number' && Math.abs(each) <= MAX_FLOAT32) || floats.length === 0) {
    throw new InvalidArgumentError('it must be a JSON array of numbers, or of rows of numbers.');
  }
  return floats as number[];
}
