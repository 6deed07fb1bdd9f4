import { ConstraintError } from './constraint-error.ts';
import { choice, literal, repeat } from './ebnf-rules.ts';

/** Bounds of a number; undefined: none. */
export interface NumberBounds {
  readonly minimum: number | undefined;
  readonly exclusiveMinimum: number | undefined;
  readonly maximum: number | undefined;
  readonly exclusiveMaximum: number | undefined;
}

/** A non-negative decimal number, exactly. */
interface Decimal {
  /** Without leading zeros, but "0". */
  readonly whole: string;
  /** Digits behind the point, without trailing zeros. */
  readonly fraction: string;
}
interface Bound {
  readonly value: Decimal;
  readonly excluded: boolean;
}
interface Signed {
  readonly negative: boolean;
  readonly bound: Bound;
}

const ZERO: Decimal = { whole: '0', fraction: '' };
const NO_ZERO: Bound = { value: ZERO, excluded: true };
/** With no more significant digits, different decimals are different doubles. */
const DOUBLE_DIGITS = 15;
const MOST_EXCLUDED = 1e14;
/** Digits of a whole number that has no bound: a client's 64 bits hold it, and a model comes to an end. */
const WHOLE_DIGITS = 18;

/** Integers within bounds, as an expression. Throws ConstraintError where there are none. */
export function integerExpression(bounds: NumberBounds): string {
  return numberExpression(bounds, (low, high) => {
    const from = low && wholeFrom(low);
    const to = high && wholeTo(high);
    if (to === undefined) return integersFrom(from ?? '0');
    return to < 0n || (from !== undefined && BigInt(from) > to) ? [] : integersBetween(from ?? '0', to.toString());
  });
}

/** Decimal numbers within bounds, without exponents where there are any bounds. Throws as `integerExpression`. */
export function decimalExpression(bounds: NumberBounds): string {
  return numberExpression(bounds, decimals);
}

/** `between`: the alternatives of the magnitudes between two bounds; the lower is never absent for negative numbers. */
function numberExpression(
  { minimum, exclusiveMinimum, maximum, exclusiveMaximum }: NumberBounds,
  between: (low: Bound | undefined, high: Bound | undefined) => string[],
): string {
  const low = tighter(minimum, exclusiveMinimum, (a, b) => a > b);
  const high = tighter(maximum, exclusiveMaximum, (a, b) => a < b);
  const negative = low && !low.negative ? [] : between(belowZero(high), low?.bound);
  const positive = high?.negative ? [] : between(low && !low.negative ? low.bound : undefined, high?.bound);
  const all = [...positive, ...negative.map((magnitude) => `"-" ${magnitude}`)];
  if (all.length === 0) throw new ConstraintError('no number is within its bounds');
  return choice(all);
}

/** Least magnitude of the negative numbers up to a bound: zero has no sign. */
function belowZero(high: Signed | undefined): Bound {
  return high?.negative ? high.bound : NO_ZERO;
}

function tighter(
  included: number | undefined,
  excluded: number | undefined,
  isTighter: (a: number, b: number) => boolean,
): Signed | undefined {
  if (included === undefined && excluded === undefined) return undefined;
  const useExcluded = excluded !== undefined && (included === undefined || !isTighter(included, excluded));
  const value = useExcluded ? excluded : included!;
  const magnitude = Math.abs(value);
  if (!useExcluded || magnitude < MOST_EXCLUDED) {
    return { negative: value < 0, bound: { value: decimalOf(magnitude), excluded: useExcluded } };
  }
  // So many digits would be read as the bound itself: the next double is the bound, and is within.
  const inwards = isTighter(1, 0) === value > 0 ? 1n : -1n;
  return { negative: value < 0, bound: { value: decimalOf(neighbour(magnitude, inwards)), excluded: false } };
}

function neighbour(magnitude: number, step: bigint): number {
  const bits = new BigInt64Array(new Float64Array([magnitude]).buffer);
  bits[0]! += step;
  return new Float64Array(bits.buffer)[0]!;
}

/** Exactly the shortest decimal that reads as the number. */
export function decimalOf(value: number): Decimal {
  const [, whole, fraction = '', exponent = '0'] = /^(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(value))!;
  const shift = Number(exponent);
  const digits = `${whole}${fraction}`;
  const point = whole!.length + shift;
  const padded = point < 0 ? digits.padStart(digits.length - point, '0') : digits.padEnd(point, '0');
  const at = Math.max(point, 0);
  return {
    whole: padded.slice(0, at).replace(/^0+(?=\d)/, '') || '0',
    fraction: padded.slice(at).replace(/0+$/, ''),
  };
}

/** The least integer that the bound lets through. */
function wholeFrom({ value, excluded }: Bound): string {
  const whole = BigInt(value.whole);
  return (value.fraction !== '' || excluded ? whole + 1n : whole).toString();
}

/** The greatest; −1 where there is none. */
function wholeTo({ value, excluded }: Bound): bigint {
  const whole = BigInt(value.whole);
  return value.fraction === '' && excluded ? whole - 1n : whole;
}

function integersFrom(low: string): string[] {
  if (low === '0') return ['"0"', `[1-9] ${repeat('[0-9]', 0, WHOLE_DIGITS - 1)}`];
  const found = sameLength(low, '9'.repeat(low.length));
  if (low.length < WHOLE_DIGITS) found.push(`[1-9] ${repeat('[0-9]', low.length, WHOLE_DIGITS - 1)}`);
  return found;
}

function integersBetween(low: string, high: string): string[] {
  if (low.length === high.length) return sameLength(low, high);
  const found = sameLength(low, '9'.repeat(low.length));
  const middle = [low.length + 1, high.length - 1] as const;
  if (middle[0] <= middle[1]) found.push(`[1-9] ${repeat('[0-9]', middle[0] - 1, middle[1] - 1)}`);
  return [...found, ...sameLength(`1${'0'.repeat(high.length - 1)}`, high)];
}

/** Digit strings of one length from `low` to `high`, as alternatives. */
function sameLength(low: string, high: string): string[] {
  if (low > high) return [];
  if (low === high) return [literal(low)];
  let shared = 0;
  while (low[shared] === high[shared]) shared++;
  const prefix = shared === 0 ? '' : `${literal(low.slice(0, shared))} `;
  const rest = low.length - shared - 1;
  const [a, b] = [Number(low[shared]), Number(high[shared])];
  if (rest === 0) return [`${prefix}${digit(a, b)}`];
  const lowTail = low.slice(shared + 1);
  const highTail = high.slice(shared + 1);
  const lowWhole = lowTail === '0'.repeat(rest);
  const highWhole = highTail === '9'.repeat(rest);
  const found: string[] = [];
  if (!lowWhole) found.push(...sameLength(lowTail, '9'.repeat(rest)).map((tail) => `"${a}" ${tail}`));
  const [from, to] = [lowWhole ? a : a + 1, highWhole ? b : b - 1];
  if (from <= to) found.push(`${digit(from, to)} ${repeat('[0-9]', rest, rest)}`);
  if (!highWhole) found.push(...sameLength('0'.repeat(rest), highTail).map((tail) => `"${b}" ${tail}`));
  return found.map((each) => `${prefix}${each}`);
}

function digit(from: number, to: number): string {
  return from === to ? `"${from}"` : `[${from}-${to}]`;
}

function decimals(low: Bound | undefined, high: Bound | undefined): string[] {
  const from = low ?? { value: ZERO, excluded: false };
  const most = mostFraction(from, high);
  const any = fractionOf(most);
  const first = BigInt(from.value.whole);
  const last = high && BigInt(high.value.whole);
  if (last !== undefined && first > last) return [];
  if (last === first) {
    const within = fractionsBetween(from, high!, most);
    return within.map((fraction) => joined(from.value.whole, fraction));
  }
  const found = fractionsFrom(from, most).map((fraction) => joined(from.value.whole, fraction));
  const next = (first + 1n).toString();
  const inner =
    last === undefined ? integersFrom(next) : last > first + 1n ? integersBetween(next, `${last - 1n}`) : [];
  found.push(...inner.map((whole) => `${whole} ${any}`));
  if (high) found.push(...fractionsTo(high, most).map((fraction) => joined(high.value.whole, fraction)));
  return found;
}

/** Behind the point: so few that a number by an excluded bound isn't read as the bound itself. */
function mostFraction(low: Bound, high: Bound | undefined): number {
  const bounds = high ? [low, high] : [low];
  const whole = bounds.map(({ value, excluded }) => (excluded ? value.whole.length : 0));
  const least = bounds.map(({ value }) => value.fraction.length);
  return Math.max(...least, DOUBLE_DIGITS - Math.max(...whole));
}

function joined(whole: string, fraction: string): string {
  return fraction === '' ? literal(whole) : `${literal(whole)} ${fraction}`;
}

function fractionOf(most: number): string {
  return `("." ${repeat('[0-9]', 1, most)})?`;
}

/** Up to so many digits of any kind. */
function digits(most: number): string {
  return most <= 0 ? '' : ` ${repeat('[0-9]', 0, most)}`;
}

/** Parts behind the whole number from a bound on; '' is none at all. */
function fractionsFrom({ value: { fraction }, excluded }: Bound, most: number): string[] {
  if (fraction === '' && !excluded) return [fractionOf(most)];
  const found: string[] = [];
  for (let i = 0; i < fraction.length; i++) {
    const next = Number(fraction[i]) + 1;
    if (next < 10) found.push(`${literal(`.${fraction.slice(0, i)}`)} ${digit(next, 9)}${digits(most - i - 1)}`);
  }
  const rest = most - fraction.length;
  const start = literal(`.${fraction}`);
  if (!excluded) found.push(`${start}${digits(rest)}`);
  else if (rest > 0) found.push(`${start}${digits(rest - 1)} [1-9]`);
  return found;
}

/** Parts behind the whole number up to a bound. */
function fractionsTo({ value: { fraction }, excluded }: Bound, most: number): string[] {
  if (fraction === '') return excluded ? [] : ['', `"." ${repeat('"0"', 1, most)}`];
  const found = [''];
  for (let i = 0; i < fraction.length; i++) {
    const before = fraction.slice(0, i);
    if (i > 0) found.push(literal(`.${before}`));
    const below = Number(fraction[i]) - 1;
    if (below >= 0) found.push(`${literal(`.${before}`)} ${digit(0, below)}${digits(most - i - 1)}`);
  }
  if (!excluded) found.push(literal(`.${fraction}`));
  return found;
}

/** Parts behind one and the same whole number. */
function fractionsBetween(low: Bound, high: Bound, most: number): string[] {
  const [a, b] = [low.value.fraction, high.value.fraction];
  const length = Math.max(a.length, b.length);
  const [from, to] = [a.padEnd(length, '0'), b.padEnd(length, '0')];
  if (from > to || (from === to && (low.excluded || high.excluded))) return [];
  if (from === to) return a === '' ? [''] : [literal(`.${a}`)];
  let shared = 0;
  while (from[shared] === to[shared]) shared++;
  const found: string[] = [];
  const prefix = from.slice(0, shared);
  const tail = (bound: Bound, digitsOf: string): Bound => ({
    value: { whole: '0', fraction: digitsOf.slice(shared + 1).replace(/0+$/, '') },
    excluded: bound.excluded,
  });
  const rest = most - shared - 1;
  const after = (at: string, parts: readonly string[]) =>
    parts.map((part) => `${literal(`.${prefix}${at}`)}${part === '' ? '' : ` ${withoutPoint(part)}`}`);
  found.push(...after(from[shared]!, fractionsFrom(tail(low, from), rest)));
  const [next, last] = [Number(from[shared]) + 1, Number(to[shared]) - 1];
  if (next <= last) found.push(`${literal(`.${prefix}`)} ${digit(next, last)}${digits(rest)}`);
  found.push(...after(to[shared]!, fractionsTo(tail(high, to), rest)));
  // The lower bound itself may have no digits here: "1" where 1.0 is meant.
  if (/^0*$/.test(from) && !low.excluded) found.push('');
  return found;
}

/** The digits of a part that stand behind others already. */
function withoutPoint(part: string): string {
  return part
    .replace(/^\("\." (.*)\)\?$/, '($1)?')
    .replace(/^"\.(\d*)"/, (_, rest: string) => (rest ? `"${rest}"` : '""'));
}
