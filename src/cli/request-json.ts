import { readFileSync } from 'node:fs';
import { type DescMessage, fromJson, type JsonValue, type MessageShape } from '@bufbuild/protobuf';
import { InvalidArgumentError } from 'commander';
import { type GenerateRequest, GenerateRequestSchema } from '../contract/gen/sglang_scheduler_pb.ts';
import { messageOf } from './errors.ts';
import { parseJson } from './sampling-values.ts';

const STDIN = 0;

/** A GenerateRequest in protobuf's JSON, names in either style; `-` is the standard input. */
export function parseRequest(file: string): GenerateRequest {
  let json: unknown;
  try {
    json = JSON.parse(readFileSync(file === '-' ? STDIN : file, 'utf8'));
  } catch (error) {
    throw new InvalidArgumentError(`it cannot be read as JSON: ${messageOf(error)}.`);
  }
  return messageFrom(GenerateRequestSchema, json);
}

/** A parser of a flag whose value is a message in protobuf's JSON, or a file that holds it after an @. */
export function messageParser<D extends DescMessage>(schema: D): (text: string) => MessageShape<D> {
  return (text) => messageFrom(schema, parseJson(text));
}

function messageFrom<D extends DescMessage>(schema: D, json: unknown): MessageShape<D> {
  const unknown = unknownFields(schema, json, '');
  if (unknown.length > 0) {
    throw new InvalidArgumentError(`${schema.name} has no field ${unknown.join(', ')}.`);
  }
  try {
    return fromJson(schema, json as JsonValue);
  } catch (error) {
    throw new InvalidArgumentError(
      `${messageOf(error).replace(/^cannot decode (?:field|oneof|message) (?:\w+\.)*?([A-Z])/, '$1')}.`,
    );
  }
}

/** Paths of the keys that the message has no field for; none within types that take any. */
function unknownFields(schema: DescMessage, json: unknown, path: string): string[] {
  if (json === null || typeof json !== 'object' || Array.isArray(json)) return [];
  // Their JSON is not that of their fields.
  if (schema.typeName.startsWith('google.protobuf.')) return [];
  return Object.entries(json).flatMap(([key, value]) => {
    const field = schema.fields.find((each) => each.name === key || each.jsonName === key);
    if (field === undefined) return [`${path}${key}`];
    return field.fieldKind === 'message' ? unknownFields(field.message, value, `${path}${key}.`) : [];
  });
}
