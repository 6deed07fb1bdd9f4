import { ConstraintError } from './constraint-error.ts';
import { isNode, listOf, type SchemaNode, type SchemaType, schemasOf, typesOf } from './schema-node.ts';

const LARGER = ['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties'];
const SMALLER = ['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties'];
/** What the keyword means depends on the others that stand beside it. */
const REST_OF: readonly (readonly [string, readonly string[]])[] = [
  ['additionalProperties', ['properties', 'patternProperties']],
  ['unevaluatedProperties', ['properties', 'patternProperties']],
  ['items', ['prefixItems']],
  ['additionalItems', ['items', 'prefixItems']],
  ['unevaluatedItems', ['items', 'prefixItems']],
];

/** One schema for what keeps to both. Throws ConstraintError where two keywords can't be made one. */
export function mergeSchemas(a: SchemaNode, b: SchemaNode): SchemaNode {
  for (const [rest, keys] of REST_OF) {
    for (const [one, other] of [
      [a, b],
      [b, a],
    ] as const) {
      if (rest in one && keys.some((key) => key in other && !covers(one, other, key))) {
        throw new ConstraintError(`"${rest}" of one schema and more of another can not be joined`);
      }
    }
  }
  const merged: Record<string, unknown> = { ...a };
  for (const [key, value] of Object.entries(b)) {
    merged[key] = key in merged ? mergeKeyword(key, merged, b, value) : value;
  }
  return merged;
}

/** Whether `one` names all that `other` does. */
function covers(one: SchemaNode, other: SchemaNode, key: string): boolean {
  if (key !== 'properties') return same(one[key], other[key]);
  const own = schemasOf(one, key);
  return [...schemasOf(other, key).keys()].every((name) => own.has(name));
}

function mergeKeyword(key: string, a: SchemaNode, b: SchemaNode, value: unknown): unknown {
  const before = a[key];
  if (same(before, value)) return value;
  if (LARGER.includes(key)) return Math.max(Number(before), Number(value));
  if (SMALLER.includes(key)) return Math.min(Number(before), Number(value));
  switch (key) {
    case 'type':
      return commonTypes(typesOf(a), typesOf(b));
    case 'required':
      return [...new Set([...(listOf(a, key) ?? []), ...(listOf(b, key) ?? [])])];
    case 'enum':
      return (listOf(a, key) ?? []).filter((each) => listOf(b, key)?.some((other) => same(each, other)));
    case 'uniqueItems':
      return true;
    case 'properties': {
      const all = new Map(schemasOf(a, key));
      for (const [name, schema] of schemasOf(b, key)) {
        all.set(name, all.has(name) ? { allOf: [all.get(name), schema] } : schema);
      }
      return Object.fromEntries(all);
    }
    case 'allOf':
      return [...(listOf(a, key) ?? []), ...(listOf(b, key) ?? [])];
    default:
      throw new ConstraintError(`"${key}" of two schemas can not be joined`);
  }
}

function commonTypes(a: readonly SchemaType[], b: readonly SchemaType[]): SchemaType[] {
  const both = a.filter((type) => b.includes(type) || (type === 'integer' && b.includes('number')));
  if (a.includes('number') && b.includes('integer')) both.push('integer');
  if (both.length === 0) throw new ConstraintError('two of its types exclude each other');
  return both;
}

/** Whether two JSON values are equal. */
export function same(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((each, i) => same(each, b[i]));
  }
  if (!isNode(a) || !isNode(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => key in b && same(a[key], b[key]));
}
