import { ConstraintError } from './constraint-error.ts';
import { choice, type EbnfRules } from './ebnf-rules.ts';
import { JsonRules, jsonLiteral, jsonSpellings } from './json-rules.ts';
import { mergeSchemas, same } from './merge-schemas.ts';
import { multiplesExpression } from './multiples.ts';
import { decimalExpression, integerExpression, type NumberBounds } from './number-rules.ts';
import { objectExpression } from './object-rules.ts';
import { mayOverlap } from './overlap.ts';
import { regexExpression } from './regex-rules.ts';
import { parseRegex } from './regex-syntax.ts';
import {
  constraintsOf,
  countOf,
  isNode,
  isOfType,
  keywordsFor,
  listOf,
  numberOf,
  type SchemaNode,
  type SchemaType,
  stringOf,
  typesOf,
} from './schema-node.ts';
import { STRING_FORMATS } from './string-formats.ts';

const MOST_DEEP = 200;

/**
 * JSON texts that a schema's validator takes, as an expression: fewer than all where a grammar can't say all, as with
 * properties that come in the schema's order, or none that it doesn't name. Throws ConstraintError, which says where,
 * for what it can't keep to.
 */
export function schemaExpression(schema: unknown, rules: EbnfRules): string {
  return new SchemaRules(schema, rules).expression(schema, []);
}

export class SchemaRules {
  readonly json: JsonRules;
  readonly #rules: EbnfRules;
  readonly #root: unknown;
  /** Rules of what $ref names, by its text. */
  readonly #referred = new Map<string, string>();
  /** What was referred to since the last bracket: to come back to one of them would say nothing. */
  #passing = new Set(['#']);
  #depth = 0;

  constructor(root: unknown, rules: EbnfRules) {
    this.#root = root;
    this.#rules = rules;
    this.json = new JsonRules(rules);
  }

  /** `path`: where in the schema it stands. */
  expression(schema: unknown, path: readonly string[]): string {
    if (schema === true) return this.json.any;
    if (++this.#depth > MOST_DEEP) throw new ConstraintError('its schemas refer to each other too deep');
    try {
      if (schema === false) throw new ConstraintError('nothing is right by it');
      if (!isNode(schema)) throw new ConstraintError('a schema must be an object, true or false');
      return this.#node(constraintsOf(schema), path);
    } catch (error) {
      if (!(error instanceof ConstraintError) || error.message.startsWith('at ') || path.length === 0) throw error;
      throw new ConstraintError(`at /${path.join('/').slice(0, 200)}: ${error.message}`);
    } finally {
      this.#depth--;
    }
  }

  /** A string's text by a regular expression, in quotes. */
  patternString(pattern: string): string {
    const inner = regexExpression(parseRegex(pattern), this.#rules, jsonSpellings);
    return this.#rules.rule(`"\\"" ${inner} "\\""`);
  }

  #node(node: SchemaNode, path: readonly string[]): string {
    const { $ref, allOf, anyOf, oneOf, ...rest } = node;
    if ($ref !== undefined) {
      const uri = stringOf(node, '$ref')!;
      if (Object.keys(node).length === 1) return this.#reference(uri);
      return this.#node(mergeSchemas(this.resolve({ $ref: uri }), without(node, '$ref')), path);
    }
    if (allOf !== undefined) {
      const all = listOf(node, 'allOf')!.map((each) => this.resolve(each));
      return this.#node(all.reduce(mergeSchemas, without(node, 'allOf')), path);
    }
    if (anyOf !== undefined) return this.#alternatives(node, 'anyOf', path);
    if (oneOf !== undefined) return this.#alternatives(node, 'oneOf', path);
    if ('const' in rest || 'enum' in rest) return this.#values(rest);
    return choice(typesOf(rest).map((type) => this.#type(rest, type, path)));
  }

  #reference(uri: string): string {
    if (this.#passing.has(uri)) throw new ConstraintError('a "$ref" leads to itself');
    const known = this.#referred.get(uri);
    if (known !== undefined) return known;
    const name = this.#rules.reserve();
    this.#referred.set(uri, name);
    this.#passing.add(uri);
    this.#rules.define(name, this.expression(this.#lookUp(uri), [uri]));
    this.#passing.delete(uri);
    return name;
  }

  /** The constraints of a schema, of what it refers to where it does. */
  resolve(schema: unknown): SchemaNode {
    let found = schema;
    for (let hops = 0; hops < MOST_DEEP; hops++) {
      if (found === true) return {};
      if (!isNode(found)) throw new ConstraintError(found === false ? 'nothing is right by it' : 'a schema is none');
      const node = constraintsOf(found);
      if (node.$ref === undefined) return node;
      const target = this.#lookUp(stringOf(node, '$ref')!);
      const siblings = without(node, '$ref');
      found = Object.keys(siblings).length === 0 ? target : mergeSchemas(this.resolve(target), siblings);
    }
    throw new ConstraintError('a $ref leads to itself');
  }

  #lookUp(uri: string): unknown {
    if (!/^#(\/|$)/.test(uri)) throw new ConstraintError('only a "$ref" that starts with "#/" is served');
    let found: unknown = this.#root;
    for (const part of uri.split('/').slice(1)) {
      const key = decode(part).replaceAll('~1', '/').replaceAll('~0', '~');
      const isThere = typeof found === 'object' && found !== null && Object.hasOwn(found, key);
      if (!isThere) throw new ConstraintError('a "$ref" names nothing');
      found = (found as Record<string, unknown>)[key];
    }
    return found;
  }

  #alternatives(node: SchemaNode, key: 'anyOf' | 'oneOf', path: readonly string[]): string {
    const base = without(node, key);
    const branches = listOf(node, key)!.filter((branch) => branch !== false);
    if (branches.length === 0) throw new ConstraintError('nothing is right by it');
    const alone = Object.keys(base).length === 0;
    const merged = alone ? branches : branches.map((branch) => mergeSchemas(base, this.resolve(branch)));
    if (key === 'oneOf') {
      const nodes = merged.map((each) => this.resolve(each));
      const overlap = nodes.some((a, i) => nodes.some((b, j) => i !== j && mayOverlap(a, b, (of) => this.resolve(of))));
      if (overlap) throw new ConstraintError('alternatives of "oneOf" may be right at once; "anyOf" allows that');
    }
    return choice(merged.map((each, i) => this.expression(each, [...path, key, String(i)])));
  }

  #values(node: SchemaNode): string {
    let values = 'enum' in node ? listOf(node, 'enum')! : [node.const];
    if ('const' in node) values = values.filter((value) => same(value, node.const));
    if ('type' in node) {
      const types = typesOf(node);
      values = values.filter((value) => types.some((each) => isOfType(value, each)));
    }
    const other = values.flatMap((value) => keywordsFor(value).filter((key) => key in node))[0];
    if (other !== undefined) throw new ConstraintError(`"${other}" beside given values is not served`);
    if (values.length === 0) throw new ConstraintError('nothing is right by it');
    return choice(values.map((value) => jsonLiteral(value)));
  }

  #type(node: SchemaNode, type: SchemaType, path: readonly string[]): string {
    switch (type) {
      case 'object':
        return this.#behindBracket(() => this.#rules.rule(objectExpression(node, this, path)));
      case 'array':
        return this.#behindBracket(() => this.#array(node, path));
      case 'string':
        return this.#string(node);
      case 'integer':
        return this.#rules.rule(numbers(node, true));
      case 'number': {
        const isBounded = [...Object.values(boundsOf(node)), node.multipleOf].some((bound) => bound !== undefined);
        return isBounded ? this.#rules.rule(numbers(node, false)) : this.json.number;
      }
      case 'boolean':
        return '("true" | "false")';
      case 'null':
        return '"null"';
    }
  }

  #behindBracket(express: () => string): string {
    const passing = this.#passing;
    this.#passing = new Set();
    const expression = express();
    this.#passing = passing;
    return expression;
  }

  #array(node: SchemaNode, path: readonly string[]): string {
    // Before 2020-12, a list of `items` was what `prefixItems` is now.
    const isOlder = Array.isArray(node.items);
    const prefix = listOf(node, isOlder ? 'items' : 'prefixItems') ?? [];
    const given = isOlder ? node.additionalItems : (node.items ?? node.unevaluatedItems);
    const items = given ?? prefix.length === 0;
    const min = countOf(node, 'minItems') ?? 0;
    const max = countOf(node, 'maxItems');
    if (max !== undefined && max < min) throw new ConstraintError('"minItems" is greater than "maxItems"');
    if (node.uniqueItems === true && (max ?? 2) > 1) throw new ConstraintError('"uniqueItems" is not served');
    const first = prefix.slice(0, max).map((each, i) => this.expression(each, [...path, 'prefixItems', String(i)]));
    if (items === false) {
      if (min > first.length) throw new ConstraintError('"minItems" is more than there are items');
      return this.#listed(first);
    }
    if (max !== undefined && max <= first.length) return this.#listed(first);
    const item = this.#rules.rule(this.expression(items, [...path, 'items']));
    if (first.length === 0) return this.json.array(item, min, max);
    const more = this.json.more(item, Math.max(0, min - first.length), max && max - first.length);
    return this.#listed(first, more);
  }

  #listed(items: readonly string[], more = ''): string {
    const { space, comma } = this.json;
    return this.#rules.rule(`"[" ${space} ${items.join(` ${comma} `)} ${more} ${space} "]"`);
  }

  #string(node: SchemaNode): string {
    const min = countOf(node, 'minLength');
    const max = countOf(node, 'maxLength');
    const pattern = stringOf(node, 'pattern');
    const format = STRING_FORMATS[stringOf(node, 'format') ?? ''];
    const isCounted = (min ?? 0) > 0 || max !== undefined;
    if (isCounted && (pattern ?? format) !== undefined) {
      throw new ConstraintError(`a length beside "${pattern === undefined ? 'format' : 'pattern'}" is not served`);
    }
    // A format is no more than a note where something says more.
    const regex = pattern ?? format;
    if (regex !== undefined) return this.patternString(regex);
    if (!isCounted) return this.json.string;
    if (max !== undefined && max < (min ?? 0)) throw new ConstraintError('"minLength" is greater than "maxLength"');
    return this.json.stringOfLength(min ?? 0, max);
  }
}

function numbers(node: SchemaNode, areWhole: boolean): string {
  const bounds = boundsOf(node);
  const multiple = numberOf(node, 'multipleOf');
  if (multiple !== undefined && multiple !== 1) return multiplesExpression(bounds, multiple, areWhole);
  return areWhole || multiple === 1 ? integerExpression(bounds) : decimalExpression(bounds);
}

function boundsOf(node: SchemaNode): NumberBounds {
  return {
    minimum: numberOf(node, 'minimum'),
    exclusiveMinimum: numberOf(node, 'exclusiveMinimum'),
    maximum: numberOf(node, 'maximum'),
    exclusiveMaximum: numberOf(node, 'exclusiveMaximum'),
  };
}

function without(node: SchemaNode, key: string): SchemaNode {
  return Object.fromEntries(Object.entries(node).filter(([each]) => each !== key));
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
