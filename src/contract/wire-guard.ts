import { type DescField, type DescMessage, ScalarType } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { ContractError } from './contract-error.ts';

/**
 * What a message may hold before it is decoded. The decoder aborts the process on some 100 million list elements,
 * and stalls the event loop on a few million: size in bytes doesn't bound that, counts do.
 */
export interface WireLimits {
  /** Numbers in all repeated fields together. */
  readonly maxScalars: number;
  /** Everything else together: messages, map entries, strings, bytes, single and unknown fields. */
  readonly maxFields: number;
  /** Messages inside messages. */
  readonly maxDepth: number;
  /** Elements of a repeated field, by `<message type>.<field>`; over all messages of that type together. */
  readonly lists?: ReadonlyMap<string, number>;
}

export interface WireCounts {
  scalars: number;
  fields: number;
  /** Elements of each repeated field, maps included, by `<message type>.<field>`. */
  readonly lists: Map<string, number>;
}

const VARINT = 0;
const BIT64 = 1;
const LENGTH = 2;
const GROUP = 3;
const END_GROUP = 4;
const BIT32 = 5;

/**
 * Walks a message's wire format without decoding it, and counts. Strict where the decoder trusts: a wire type other
 * than the field's, or an element past its message's end, is malformed, so that decoder and guard can't read the same
 * bytes differently. Throws ContractError (INVALID_ARGUMENT), and nothing else; stops at the first excess.
 */
export function guardWire(schema: DescMessage, bytes: Uint8Array, limits: WireLimits): WireCounts {
  const walk = new WireWalk(bytes, limits);
  walk.message(schema, 0, bytes.byteLength, 1);
  return walk.counts;
}

class WireWalk {
  readonly counts: WireCounts = { scalars: 0, fields: 0, lists: new Map() };
  private pos = 0;
  private readonly bytes: Uint8Array;
  private readonly limits: WireLimits;

  constructor(bytes: Uint8Array, limits: WireLimits) {
    this.bytes = bytes;
    this.limits = limits;
  }

  message(schema: DescMessage, from: number, end: number, depth: number): void {
    if (depth > this.limits.maxDepth) throw excess(schema.typeName, `is nested over ${this.limits.maxDepth} deep.`);
    const fields = fieldsOf(schema);
    this.pos = from;
    while (this.pos < end) {
      const tag = this.tag(end);
      const field = fields.get(tag >>> 3);
      if (field) this.field(field, tag & 7, end, depth);
      else this.unknown(tag, end, depth);
    }
  }

  private field(field: DescField, wire: number, end: number, depth: number): void {
    if (field.fieldKind === 'list' && field.listKind !== 'message') {
      this.scalarList(field, wire, end);
      return;
    }
    this.countField(field);
    if (field.fieldKind === 'map') {
      const to = this.length(wire, end);
      this.mapEntry(field, to, depth);
    } else if (field.message) {
      const to = this.length(wire, end);
      this.message(field.message, this.pos, to, depth + 1);
    } else this.scalar(field.scalar ?? ScalarType.INT32, wire, end);
  }

  /** A map's entry is a message with field 1, the key, and field 2, the value; the decoder knows no others in it. */
  private mapEntry(field: DescField & { fieldKind: 'map' }, end: number, depth: number): void {
    while (this.pos < end) {
      const tag = this.tag(end);
      this.countFields(1);
      if (tag >>> 3 === 1) this.scalar(field.mapKey, tag & 7, end);
      else if (tag >>> 3 !== 2) throw malformed();
      else if (field.message) {
        const to = this.length(tag & 7, end);
        this.message(field.message, this.pos, to, depth + 1);
      } else this.scalar(field.scalar ?? ScalarType.INT32, tag & 7, end);
    }
  }

  private scalarList(field: DescField & { fieldKind: 'list' }, wire: number, end: number): void {
    const type = field.scalar ?? ScalarType.INT32;
    const expected = wireTypeOf(type);
    const name = nameOf(field);
    if (expected === LENGTH) {
      this.countField(field);
      this.scalar(type, wire, end);
      return;
    }
    const cap = Math.min(
      this.limits.lists?.get(name) ?? Number.POSITIVE_INFINITY,
      (this.counts.lists.get(name) ?? 0) + this.limits.maxScalars - this.counts.scalars,
    );
    const before = this.counts.lists.get(name) ?? 0;
    let count = before;
    if (wire === LENGTH) {
      const to = this.length(wire, end);
      if (expected === VARINT) count = this.packedVarints(to, before, cap);
      else {
        const size = expected === BIT64 ? 8 : 4;
        if ((to - this.pos) % size !== 0) throw malformed();
        count += (to - this.pos) / size;
        this.pos = to;
      }
    } else {
      this.scalar(type, wire, end);
      count++;
    }
    if (count > cap) throw excess(name, `holds more than ${cap} elements.`);
    this.counts.lists.set(name, count);
    this.counts.scalars += count - before;
  }

  /** Every varint ends in a byte without the top bit: counting those counts elements. */
  private packedVarints(to: number, before: number, cap: number): number {
    const { bytes } = this;
    let count = before;
    let run = 0;
    for (let at = this.pos; at < to; at++) {
      if ((bytes[at] as number) < 0x80) {
        run = 0;
        if (++count > cap) return count;
      } else if (++run >= 10) throw malformed();
    }
    if (run > 0) throw malformed();
    this.pos = to;
    return count;
  }

  private unknown(tag: number, end: number, depth: number): void {
    this.countFields(1);
    const wire = tag & 7;
    if (wire !== GROUP) {
      this.skip(wire, end);
      return;
    }
    if (depth >= this.limits.maxDepth) throw excess('message', `is nested over ${this.limits.maxDepth} deep.`);
    for (;;) {
      const inner = this.tag(end);
      if ((inner & 7) === END_GROUP) {
        if (inner >>> 3 !== tag >>> 3) throw malformed();
        return;
      }
      this.unknown(inner, end, depth + 1);
    }
  }

  private scalar(type: ScalarType, wire: number, end: number): void {
    if (wire !== wireTypeOf(type)) throw malformed();
    this.skip(wire, end);
  }

  private skip(wire: number, end: number): void {
    if (wire === VARINT) this.varint(end);
    else if (wire === BIT64) this.pos += 8;
    else if (wire === LENGTH) this.pos = this.length(wire, end);
    else if (wire === BIT32) this.pos += 4;
    else throw malformed();
    if (this.pos > end) throw malformed();
  }

  /** Reads a length; returns where what it spans ends. */
  private length(wire: number, end: number): number {
    if (wire !== LENGTH) throw malformed();
    const to = this.varint(end) + this.pos;
    if (to > end) throw malformed();
    return to;
  }

  private tag(end: number): number {
    const tag = this.varint(end);
    if (tag > 0xffffffff || tag >>> 3 === 0) throw malformed();
    return tag;
  }

  /** A varint's value, exact up to 2⁵³: enough to tell a tag or a length from nonsense. */
  private varint(end: number): number {
    let value = 0;
    let factor = 1;
    for (let read = 0; read < 10; read++) {
      if (this.pos >= end) throw malformed();
      const byte = this.bytes[this.pos++] as number;
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
      factor *= 128;
    }
    throw malformed();
  }

  private countField(field: DescField): void {
    this.countFields(1);
    if (field.fieldKind !== 'list' && field.fieldKind !== 'map') return;
    const name = nameOf(field);
    const count = (this.counts.lists.get(name) ?? 0) + 1;
    const cap = this.limits.lists?.get(name);
    if (cap !== undefined && count > cap) throw excess(name, `holds more than ${cap} elements.`);
    this.counts.lists.set(name, count);
  }

  private countFields(by: number): void {
    this.counts.fields += by;
    if (this.counts.fields > this.limits.maxFields) {
      throw excess('message', `holds more than ${this.limits.maxFields} fields.`);
    }
  }
}

function wireTypeOf(type: ScalarType): number {
  switch (type) {
    case ScalarType.STRING:
    case ScalarType.BYTES:
      return LENGTH;
    case ScalarType.DOUBLE:
    case ScalarType.FIXED64:
    case ScalarType.SFIXED64:
      return BIT64;
    case ScalarType.FLOAT:
    case ScalarType.FIXED32:
    case ScalarType.SFIXED32:
      return BIT32;
    default:
      return VARINT;
  }
}

const fieldMaps = new WeakMap<DescMessage, ReadonlyMap<number, DescField>>();

function fieldsOf(schema: DescMessage): ReadonlyMap<number, DescField> {
  let map = fieldMaps.get(schema);
  if (!map) {
    map = new Map(schema.fields.map((field) => [field.number, field]));
    fieldMaps.set(schema, map);
  }
  return map;
}

const names = new WeakMap<DescField, string>();

function nameOf(field: DescField): string {
  let name = names.get(field);
  if (name === undefined) {
    name = `${field.parent.typeName}.${field.name}`;
    names.set(field, name);
  }
  return name;
}

function malformed(): ContractError {
  return new ContractError(Code.InvalidArgument, 'The message is not well-formed protobuf.');
}

function excess(name: string, rule: string): ContractError {
  const field = name.split('.').at(-1) ?? name;
  return new ContractError(Code.InvalidArgument, `${field} ${rule}`, field);
}
