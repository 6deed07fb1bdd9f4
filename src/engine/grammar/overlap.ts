import { same } from './merge-schemas.ts';
import { isNode, isOfType, listOf, requiredOf, type SchemaNode, schemasOf, typesOf } from './schema-node.ts';

const MOST_DEEP = 8;
const ALL_TYPES = typesOf({});

/** Whether an output that is made by `a` may be right by `b`; no only where that is sure. */
export function mayOverlap(a: SchemaNode, b: SchemaNode, resolve: (schema: unknown) => SchemaNode, depth = 0): boolean {
  if (depth > MOST_DEEP || [a, b].some((node) => 'anyOf' in node || 'oneOf' in node || 'allOf' in node)) return true;
  const values = valuesOf(a);
  const others = valuesOf(b);
  if (values && others) return values.some((value) => others.some((other) => same(value, other)));
  // Without a type, it takes values of every other type than its keywords are for.
  const types = 'type' in b ? typesOf(b) : ALL_TYPES;
  if (values) return values.some((value) => types.some((type) => isOfType(value, type)));
  if (others) return others.some((value) => typesOf(a).some((type) => isOfType(value, type)));
  const common = typesOf(a).filter((type) => types.includes(type) || overlapsNumber(type, types));
  if (common.length !== 1 || common[0] !== 'object') return common.length > 0;
  return objectsMayOverlap(a, b, (one, other) => mayOverlap(resolve(one), resolve(other), resolve, depth + 1));
}

function valuesOf(node: SchemaNode): readonly unknown[] | undefined {
  return 'const' in node ? [node.const] : listOf(node, 'enum');
}

function overlapsNumber(type: string, types: readonly string[]): boolean {
  return (type === 'number' && types.includes('integer')) || (type === 'integer' && types.includes('number'));
}

function objectsMayOverlap(a: SchemaNode, b: SchemaNode, overlap: (one: unknown, other: unknown) => boolean): boolean {
  const [own, others] = [schemasOf(a, 'properties'), schemasOf(b, 'properties')];
  const [needed, wanted] = [requiredOf(a), requiredOf(b)];
  const aIsClosed = 'properties' in a && !isOpen(a);
  const bIsClosed = b.additionalProperties === false && !('patternProperties' in b);
  if (aIsClosed && wanted.some((name) => !own.has(name) && !needed.includes(name))) return false;
  if (bIsClosed && needed.some((name) => !others.has(name))) return false;
  return !needed.some((name) => own.has(name) && others.has(name) && !overlap(own.get(name), others.get(name)));
}

/** Whether outputs may have properties that it doesn't name. */
function isOpen(node: SchemaNode): boolean {
  const rest = node.additionalProperties ?? node.unevaluatedProperties ?? false;
  return rest === true || isNode(rest) || 'patternProperties' in node;
}
