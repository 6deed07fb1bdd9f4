import type { ConstrainedCase } from './constrained-cases.ts';

const schema = (name: string, of: object | boolean): ConstrainedCase => ({
  name,
  constraint: { kind: 'json_schema', text: JSON.stringify(of) },
  schema: of,
});

/** Arguments of a tool. */
export const TOOL = {
  type: 'object',
  properties: { n: { type: 'integer' } },
  required: ['n'],
  additionalProperties: false,
};

export const SCHEMA_CASES: readonly ConstrainedCase[] = [
  schema('any object', { type: 'object' }),
  schema('anything', true),
  schema('nested objects', {
    type: 'object',
    properties: {
      a: {
        type: 'object',
        properties: { b: { type: 'object', properties: { c: { type: 'boolean' } }, required: ['c'] } },
        required: ['b'],
      },
      d: { type: 'null' },
    },
    required: ['a', 'd'],
  }),
  schema('required and optional', {
    type: 'object',
    properties: { a: { type: 'integer' }, b: { type: 'boolean' }, c: { type: 'null' }, d: { type: 'integer' } },
    required: ['b', 'd'],
    additionalProperties: false,
  }),
  schema('typed additional properties', {
    type: 'object',
    properties: { a: { type: 'integer' } },
    additionalProperties: { type: 'boolean' },
  }),
  schema('pattern properties', {
    type: 'object',
    patternProperties: { '^x[0-9]{1,2}$': { type: 'integer' } },
    additionalProperties: false,
  }),
  schema('property names', { type: 'object', propertyNames: { type: 'string', pattern: '^[a-c]{1,3}$' } }),
  schema('counted properties', { type: 'object', minProperties: 1, maxProperties: 3 }),
  schema('keys with quotes and letters of two bytes', {
    type: 'object',
    properties: { 'ä b': { type: 'boolean' }, 'c/d': { type: 'null' } },
    required: ['ä b', 'c/d'],
  }),
  schema('enum', { enum: ['red', 'green', 12, null, true, 'ä', ''] }),
  schema('enum of composites', { enum: [{ a: [1, 2] }, [], {}] }),
  schema('const', { const: { kind: 'x', n: -1.5 } }),
  schema('string', { type: 'string' }),
  schema('string of a length', { type: 'string', minLength: 2, maxLength: 6 }),
  schema('string of many', { type: 'string', minLength: 40, maxLength: 700 }),
  schema('string of at least', { type: 'string', minLength: 3 }),
  schema('a dot, which needs escapes', { type: 'string', pattern: '^.{1,9}$' }),
  schema('a pattern of what JSON escapes', { type: 'string', pattern: '^["\\\\]{2}[^a-z]{0,6}\\t$' }),
  schema('a pattern of letters beyond ASCII', { type: 'string', pattern: '^[α-ω]+[^à-ü]{2}\\S*$' }),
  schema('names that others have not', {
    type: 'object',
    properties: { a: { type: 'boolean' }, ab: { type: 'null' }, 'é"': { type: 'null' } },
    required: ['ab'],
    additionalProperties: { type: 'integer' },
  }),
  schema('names that JSON escapes', {
    type: 'object',
    properties: { 'q"\\': { const: '\u2028"\\' }, '\n': { enum: ['\t', '|'] } },
    required: ['q"\\', '\n'],
  }),
  schema('counted names', {
    type: 'object',
    properties: { a: { type: 'null' }, b: { type: 'null' }, c: { type: 'null' }, d: { type: 'null' } },
    required: ['c'],
    minProperties: 2,
    maxProperties: 3,
    additionalProperties: false,
  }),
  schema('number, bounds excluded', { type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 1 }),
  schema('allOf of several', {
    allOf: [
      { type: 'object', properties: { a: { type: 'integer', minimum: 1 } }, required: ['a'] },
      { $ref: '#/$defs/b' },
    ],
    $defs: { b: { properties: { a: { maximum: 20 }, b: { type: 'boolean' } }, required: ['b'] } },
  }),
  schema('anyOf beside properties', {
    type: 'object',
    properties: { a: { type: 'integer' }, b: { type: 'boolean' } },
    anyOf: [{ required: ['a'] }, { required: ['b'] }],
  }),
  schema('pattern', { type: 'string', pattern: '^[A-Z][a-z]{1,5}(-[0-9]+)?$' }),
  schema('integer', { type: 'integer' }),
  schema('integer range', { type: 'integer', minimum: -5, maximum: 1234 }),
  schema('integer range of two digits', { type: 'integer', minimum: 17, maximum: 83 }),
  schema('negative integer range', { type: 'integer', minimum: -1050, maximum: -37 }),
  schema('integers from', { type: 'integer', minimum: 120 }),
  schema('integers to', { type: 'integer', maximum: -8 }),
  schema('integer, bounds excluded', { type: 'integer', exclusiveMinimum: 3, exclusiveMaximum: 6 }),
  schema('number', { type: 'number' }),
  schema('number range', { type: 'number', minimum: 0.5, maximum: 10.25 }),
  schema('number range about zero', { type: 'number', minimum: -2, maximum: 3 }),
  schema('numbers from', { type: 'number', minimum: 2.75 }),
  schema('boolean', { type: 'boolean' }),
  schema('one of several types', { type: ['string', 'integer', 'null'], maxLength: 3 }),
  schema('array', { type: 'array', items: { type: 'integer' } }),
  schema('counted array', { type: 'array', items: { enum: [1, 'b'] }, minItems: 2, maxItems: 4 }),
  schema('tuple', {
    type: 'array',
    prefixItems: [{ type: 'integer' }, { type: 'boolean' }],
    items: false,
    minItems: 2,
  }),
  schema('tuple and more', { type: 'array', prefixItems: [{ type: 'null' }], items: { type: 'integer' }, minItems: 3 }),
  schema('array of arrays', {
    type: 'array',
    items: { type: 'array', items: { type: 'boolean' }, maxItems: 2 },
    minItems: 1,
    maxItems: 3,
  }),
  schema('anyOf', {
    anyOf: [
      { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] },
      { type: 'array', items: { type: 'null' } },
      { const: 'x' },
    ],
  }),
  schema('oneOf by a kind', {
    oneOf: [
      { type: 'object', properties: { k: { const: 'a' }, v: { type: 'integer' } }, required: ['k', 'v'] },
      { type: 'object', properties: { k: { const: 'b' }, w: { type: 'boolean' } }, required: ['k', 'w'] },
    ],
  }),
  schema('$ref', {
    type: 'object',
    properties: { p: { $ref: '#/$defs/point' }, q: { $ref: '#/$defs/point' } },
    required: ['p', 'q'],
    $defs: {
      point: {
        type: 'object',
        properties: { x: { type: 'integer' }, y: { type: 'integer' } },
        required: ['x', 'y'],
        additionalProperties: false,
      },
    },
  }),
  schema('recursive $ref', {
    $ref: '#/$defs/node',
    $defs: {
      node: {
        type: 'object',
        properties: { v: { type: 'boolean' }, next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } },
        required: ['v', 'next'],
      },
    },
  }),
  schema('a list of itself', { type: 'array', items: { $ref: '#' }, maxItems: 2 }),
  schema('allOf of one', { allOf: [{ type: 'integer', minimum: 1, maximum: 9 }] }),
  ...['date', 'time', 'date-time', 'uuid', 'ipv4', 'ipv6', 'email', 'hostname'].map((format) =>
    schema(`format ${format}`, { type: 'string', format }),
  ),
  // As a gateway asks for a required tool call.
  schema('tool calls', {
    type: 'array',
    minItems: 1,
    maxItems: 2,
    items: {
      type: 'object',
      anyOf: [
        { properties: { name: { type: 'string', enum: ['f'] }, parameters: TOOL }, required: ['name', 'parameters'] },
        { properties: { name: { type: 'string', enum: ['g'] }, parameters: TOOL }, required: ['name', 'parameters'] },
      ],
    },
  }),
];
