import { ConstraintError } from './constraint-error.ts';
import { choice } from './ebnf-rules.ts';
import { jsonLiteral } from './json-rules.ts';
import { same } from './merge-schemas.ts';
import { countOf, isNode, requiredOf, type SchemaNode, schemasOf, stringOf } from './schema-node.ts';
import type { SchemaRules } from './schema-rules.ts';

/** Places × counts of properties of one object. */
const MOST_STATES = 20_000;

interface Member {
  readonly text: string;
  readonly isRequired: boolean;
}

/**
 * JSON objects by a schema: its properties in its order, then others. Where it names properties or patterns and says
 * nothing of others, there are none.
 */
export function objectExpression(node: SchemaNode, schemas: SchemaRules, path: readonly string[]): string {
  const min = countOf(node, 'minProperties') ?? 0;
  const max = countOf(node, 'maxProperties');
  if (max !== undefined && max < min) throw new ConstraintError('"minProperties" is greater than "maxProperties"');
  const { members, names } = declared(node, schemas, path);
  const other = others(node, names, schemas, path);
  const first = membersFrom(members, other, min, max, schemas);
  if (first === undefined) throw new ConstraintError('no object has so many properties');
  const { space } = schemas.json;
  return `"{" ${space} ${first} ${space} "}"`;
}

/** The properties that the schema names, and all names that are not for others. */
function declared(
  node: SchemaNode,
  schemas: SchemaRules,
  path: readonly string[],
): { members: readonly Member[]; names: readonly string[] } {
  const properties = new Map(schemasOf(node, 'properties'));
  const required = new Set(requiredOf(node));
  for (const name of required) {
    if (properties.has(name)) continue;
    if ('patternProperties' in node || 'propertyNames' in node) {
      throw new ConstraintError('"required" beside names by a pattern is not served');
    }
    const rest = node.additionalProperties ?? node.unevaluatedProperties ?? true;
    if (rest === false) throw new ConstraintError('it requires a property that it does not allow');
    properties.set(name, rest);
  }
  const members: Member[] = [];
  for (const [name, schema] of properties) {
    const isRequired = required.has(name);
    if (schema === false && !isRequired) continue;
    const value = schemas.expression(schema, [...path, 'properties', name]);
    members.push({ text: schemas.json.member(jsonLiteral(name), value), isRequired });
  }
  return { members, names: [...properties.keys()] };
}

/** A property that the schema doesn't name; undefined: there is none. */
function others(
  node: SchemaNode,
  names: readonly string[],
  schemas: SchemaRules,
  path: readonly string[],
): string | undefined {
  const { json } = schemas;
  const rest = node.additionalProperties ?? node.unevaluatedProperties;
  const patterns = [...schemasOf(node, 'patternProperties')];
  const keys = node.propertyNames;
  if (patterns.length > 0) {
    if (rest !== undefined && rest !== false) {
      throw new ConstraintError('"additionalProperties" beside "patternProperties" is not served');
    }
    if (names.length > 0 || keys !== undefined) {
      throw new ConstraintError('"patternProperties" beside other names is not served');
    }
    if (patterns.some(([, schema]) => !same(schema, patterns[0]![1]))) {
      throw new ConstraintError('"patternProperties" of several schemas are not served');
    }
    const [pattern, schema] = patterns[0]!;
    const key = choice(
      [pattern, ...patterns.slice(1).map(([each]) => each)].map((each) => schemas.patternString(each)),
    );
    return json.member(key, schemas.expression(schema, [...path, 'patternProperties', pattern]));
  }
  if (keys !== undefined && keys !== true) {
    if (names.length > 0) throw new ConstraintError('"propertyNames" beside "properties" is not served');
    if (rest === false) return undefined;
    const key = isNode(keys) ? { type: 'string', ...keys } : keys;
    if (isNode(key) && stringOf(key, 'type') !== 'string') throw new ConstraintError('property names are strings');
    const value = schemas.expression(rest ?? true, [...path, 'additionalProperties']);
    return json.member(schemas.expression(key, [...path, 'propertyNames']), value);
  }
  if (rest === false || (rest === undefined && 'properties' in node)) return undefined;
  if (rest === undefined && names.length > 0) return undefined;
  const value = schemas.expression(rest ?? true, [...path, 'additionalProperties']);
  return json.member(names.length === 0 ? json.string : json.stringBut(names), value);
}

/**
 * The members of an object from the first on, as a chain of rules: one for each place and each count of members before
 * it. Without bounds, the count only says whether a comma comes first.
 */
function membersFrom(
  members: readonly Member[],
  other: string | undefined,
  min: number,
  max: number | undefined,
  { json }: SchemaRules,
): string | undefined {
  const required = members.filter((member) => member.isRequired).length;
  const isCounted = min > required || (max !== undefined && (other !== undefined || max < members.length));
  const most = isCounted ? members.length : 1;
  if (members.length * most > MOST_STATES) throw new ConstraintError('its counted properties are too many');
  let after = Array.from({ length: most + 1 }, (_, count) =>
    rest(other, isCounted ? min : 0, isCounted ? max : undefined, count, json),
  );
  for (const member of [...members].reverse()) {
    const next = after;
    after = next.map((skipped, count) => {
      const ways: string[] = [];
      const taken = next[Math.min(count + 1, most)];
      if (taken !== undefined && (!isCounted || max === undefined || count < max)) {
        ways.push(`${count > 0 ? `${json.comma} ` : ''}${member.text} ${taken}`);
      }
      if (!member.isRequired && skipped !== undefined) ways.push(skipped);
      return ways.length === 0 ? undefined : json.rules.rule(ways.join(' | '));
    });
  }
  return after[0];
}

/** The members that the schema doesn't name, after `count` others; undefined: there must be more than can be. */
function rest(
  other: string | undefined,
  min: number,
  max: number | undefined,
  count: number,
  json: SchemaRules['json'],
): string | undefined {
  const least = Math.max(0, min - count);
  const most = max === undefined ? undefined : max - count;
  if (most !== undefined && most < 0) return undefined;
  if (other === undefined) return least > 0 ? undefined : '""';
  // Two of them may have the same name, and count for one.
  if (least > 1) throw new ConstraintError('"minProperties" over 1 beside free names is not served');
  return count === 0 ? json.list(other, least, most) : json.more(other, least, most);
}
