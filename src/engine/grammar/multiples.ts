import { ConstraintError } from './constraint-error.ts';
import { choice, literal } from './ebnf-rules.ts';
import { decimalOf, type NumberBounds } from './number-rules.ts';

/** Multiples that are written out. */
const MOST = 4_096;

/**
 * The multiples of a number within bounds, as an expression of all of them; `areWhole`: integers alone. Left out is what
 * a validator that divides doubles may take for none. Throws ConstraintError where they are too many, or there is none.
 */
export function multiplesExpression(bounds: NumberBounds, multiple: number, areWhole: boolean): string {
  if (!(multiple > 0)) throw new ConstraintError('"multipleOf" must be above zero');
  const low = Math.max(bounds.minimum ?? -Infinity, bounds.exclusiveMinimum ?? -Infinity);
  const high = Math.min(bounds.maximum ?? Infinity, bounds.exclusiveMaximum ?? Infinity);
  const first = Math.ceil(low / multiple) - 1;
  const last = Math.floor(high / multiple) + 1;
  const most = Math.max(-first, last) * Math.max(1, multiple);
  if (!(last - first <= MOST) || most > Number.MAX_SAFE_INTEGER) {
    throw new ConstraintError(`"multipleOf" is served between bounds with at most ${MOST} multiples`);
  }
  const found: string[] = [];
  for (let times = first; times <= last; times++) {
    const text = product(times, multiple);
    const value = Number(text);
    if (Number.isInteger(value / multiple) && (!areWhole || Number.isInteger(value)) && isWithin(value, bounds)) {
      found.push(literal(text));
    }
  }
  if (found.length === 0) throw new ConstraintError('no number is within its bounds');
  return choice(found);
}

function isWithin(value: number, { minimum, exclusiveMinimum, maximum, exclusiveMaximum }: NumberBounds): boolean {
  if (value < (minimum ?? -Infinity) || value > (maximum ?? Infinity)) return false;
  return value > (exclusiveMinimum ?? -Infinity) && value < (exclusiveMaximum ?? Infinity);
}

/** Exactly, as JSON has it. */
function product(times: number, multiple: number): string {
  const { whole, fraction } = decimalOf(multiple);
  const scaled = BigInt(Math.abs(times)) * BigInt(`${whole}${fraction}`);
  const digits = scaled.toString().padStart(fraction.length + 1, '0');
  const point = digits.length - fraction.length;
  const behind = digits.slice(point).replace(/0+$/, '');
  return `${times < 0 ? '-' : ''}${digits.slice(0, point)}${behind === '' ? '' : `.${behind}`}`;
}
