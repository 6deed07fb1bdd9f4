import { ConstraintError } from './constraint-error.ts';

/** A JSON schema that is an object. */
export type SchemaNode = Readonly<Record<string, unknown>>;

/** Say nothing of which values are right. */
const ANNOTATIONS = new Set(
  '$schema $id id $comment $defs definitions $anchor $vocabulary title description default examples example deprecated readOnly writeOnly contentEncoding contentMediaType contentSchema'.split(
    ' ',
  ),
);
/** Every keyword that says which; one that is not among them is nobody's. */
const KEYWORDS = new Set(
  'type const enum $ref allOf anyOf oneOf not if then else properties required patternProperties propertyNames additionalProperties unevaluatedProperties minProperties maxProperties dependentRequired dependentSchemas dependencies items prefixItems additionalItems unevaluatedItems contains minContains maxContains minItems maxItems uniqueItems minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern format $dynamicRef $recursiveRef'.split(
    ' ',
  ),
);
const UNSERVED =
  'not if then else dependentRequired dependentSchemas dependencies contains minContains maxContains $dynamicRef $recursiveRef'.split(
    ' ',
  );

export function isNode(value: unknown): value is SchemaNode {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The keywords of a node that its values must keep to. Throws ConstraintError naming one that can't be served. */
export function constraintsOf(node: SchemaNode): SchemaNode {
  const constraints: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(node)) {
    if (UNSERVED.includes(key)) throw new ConstraintError(`"${key}" is not served`);
    if (KEYWORDS.has(key) && !ANNOTATIONS.has(key)) constraints[key] = value;
  }
  return constraints;
}

/** A keyword's number. Throws ConstraintError where it is something else. */
export function numberOf(node: SchemaNode, key: string): number | undefined {
  const value = node[key];
  if (value === undefined) return undefined;
  // Draft 4 has true and false here, which mean something else.
  if (typeof value !== 'number' || !Number.isFinite(value)) throw new ConstraintError(`"${key}" must be a number`);
  return value;
}

/** A keyword's whole number from 0 on. */
export function countOf(node: SchemaNode, key: string): number | undefined {
  const value = numberOf(node, key);
  if (value !== undefined && (!Number.isSafeInteger(value) || value < 0)) {
    throw new ConstraintError(`"${key}" must be a whole number from 0 on`);
  }
  return value;
}

export function stringOf(node: SchemaNode, key: string): string | undefined {
  const value = node[key];
  if (value !== undefined && typeof value !== 'string') throw new ConstraintError(`"${key}" must be a string`);
  return value;
}

/** A keyword's schemas by name. */
export function schemasOf(node: SchemaNode, key: string): ReadonlyMap<string, unknown> {
  const value = node[key];
  if (value === undefined) return new Map();
  if (!isNode(value)) throw new ConstraintError(`"${key}" must be an object`);
  return new Map(Object.entries(value));
}

export function listOf(node: SchemaNode, key: string): readonly unknown[] | undefined {
  const value = node[key];
  if (value !== undefined && !Array.isArray(value)) throw new ConstraintError(`"${key}" must be an array`);
  return value;
}

export function requiredOf(node: SchemaNode): readonly string[] {
  const names = listOf(node, 'required') ?? [];
  if (!names.every((name) => typeof name === 'string')) throw new ConstraintError('"required" must hold strings');
  return names as string[];
}

const TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'] as const;
export type SchemaType = (typeof TYPES)[number];
const OF_TYPE: Readonly<Partial<Record<SchemaType, readonly string[]>>> = {
  object:
    'properties required patternProperties propertyNames additionalProperties unevaluatedProperties minProperties maxProperties'.split(
      ' ',
    ),
  array: 'items prefixItems additionalItems unevaluatedItems minItems maxItems uniqueItems'.split(' '),
  string: 'minLength maxLength pattern format'.split(' '),
  number: 'minimum maximum exclusiveMinimum exclusiveMaximum multipleOf'.split(' '),
};

/** Types that values may have. Where only keywords of one type are there, it is that. */
export function typesOf(node: SchemaNode): readonly SchemaType[] {
  const { type } = node;
  if (type === undefined) {
    const meant = TYPES.filter((each) => OF_TYPE[each]?.some((key) => key in node));
    return meant.length > 0 ? meant : TYPES.filter((each) => each !== 'integer');
  }
  const types: unknown[] = Array.isArray(type) ? type : [type];
  for (const each of types) {
    if (!TYPES.includes(each as SchemaType)) throw new ConstraintError('"type" is not one of JSON Schema');
  }
  const known = types as SchemaType[];
  return known.includes('number') ? known.filter((each) => each !== 'integer') : known;
}

/** Whether a value is of a type. */
export function isOfType(value: unknown, type: SchemaType): boolean {
  switch (type) {
    case 'object':
      return isNode(value);
    case 'array':
      return Array.isArray(value);
    case 'integer':
      return Number.isInteger(value);
    case 'null':
      return value === null;
    default:
      return typeof value === type;
  }
}

/** Keywords that say something of such a value, beside those for all. */
export function keywordsFor(value: unknown): readonly string[] {
  const type = TYPES.find((each) => each in OF_TYPE && isOfType(value, each));
  return (type && OF_TYPE[type]) ?? [];
}
