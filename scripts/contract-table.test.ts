// docs/contract.md and the proto tell of the same things, and what it points to is there.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DescFile, DescMessage } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { Operator } from '../src/contract/gen/operator_pb.ts';
import { file_sglang_scheduler, SglangScheduler } from '../src/contract/gen/sglang_scheduler_pb.ts';
import { file_smg_common } from '../src/contract/gen/smg_common_pb.ts';

const root = join(import.meta.dirname, '..');
const read = (file: string) => readFileSync(join(root, file), 'utf8');
const FILES: readonly DescFile[] = [file_sglang_scheduler, file_smg_common];
/** Of the operator service's the messages are the gateway's too. */
const methods = [...SglangScheduler.methods, ...Operator.methods];
const messages = FILES.flatMap((file) => file.messages);

interface Row {
  /** `Rpc`, or `Message.field`. */
  readonly name: string;
  readonly served: string;
  readonly code: string;
  readonly testFile: string;
  /** A part of the test's name. */
  readonly title: string;
}

const ROW = /^\| `(\w+)` \| (.+) \| `([^`]+)` \| `([^`]+)`: (.+) \|$/;

const rows: readonly Row[] = (() => {
  let heading: string | undefined;
  return read('docs/contract.md')
    .split('\n')
    .flatMap((line) => {
      const [, level, name] = /^(##+) (.+)$/.exec(line) ?? [];
      if (level === '##') heading = undefined;
      if (level === '###') heading = name;
      const [, own, served, code, testFile, title] = ROW.exec(line) ?? [];
      if (own === undefined) {
        // A row that isn't read would be a row that isn't checked.
        expect(/^\| `/.test(line), line).toBe(false);
        return [];
      }
      const full = heading === undefined ? own : `${heading}.${own}`;
      return [{ name: full, served: served!, code: code!, testFile: testFile!, title: title! }];
    });
})();

const fields = messages.flatMap((message) => message.fields.map((field) => ({ message, field })));

test('each rpc and each field has one row, and nothing else has', () => {
  const expected = [
    ...methods.map(({ name }) => name),
    ...fields.map(({ message, field }) => `${message.name}.${field.name}`),
  ];
  expect(rows.map(({ name }) => name).sort()).toEqual(expected.sort());
});

/** A message and all that it may hold. */
function reach(message: DescMessage, into: Set<DescMessage>): void {
  if (into.has(message)) return;
  into.add(message);
  for (const field of message.fields) if (field.message) reach(field.message, into);
}

const refused = new Set(rows.filter(({ served }) => served.startsWith('UNIMPLEMENTED')).map(({ name }) => name));
const ofRpcs = new Set<DescMessage>();
const ofServedRpcs = new Set<DescMessage>();
for (const { name, input, output } of methods) {
  for (const message of [input, output]) {
    reach(message, ofRpcs);
    if (!refused.has(name)) reach(message, ofServedRpcs);
  }
}

test('a message of no rpc is told as such, and one of refused rpcs only', () => {
  for (const message of messages) {
    for (const { served, name } of rows.filter((row) => row.name.startsWith(`${message.name}.`))) {
      expect(served === 'of no rpc', name).toBe(!ofRpcs.has(message));
      if (ofRpcs.has(message)) {
        expect(/^not served: \w+ is UNIMPLEMENTED$/.test(served), name).toBe(!ofServedRpcs.has(message));
      }
    }
  }
});

/** What a row's test has to speak of: the field or rpc, in the proto's or the code's words; or what isn't there instead. */
function wordsOf({ name, served }: Row): readonly string[] {
  const missing = /^not served: (\w+) is (?:UNIMPLEMENTED|silent|unset)$/.exec(served)?.[1];
  const method = methods.find((one) => one.name === (missing ?? name));
  if (missing !== undefined && !method) return [missing];
  if (method) return [method.localName, method.name];
  const { field } = fields.find((one) => `${one.message.name}.${one.field.name}` === name)!;
  return [field.localName, field.name];
}

/** Names of a file's tests. */
function titlesOf(source: string): string {
  const titles = source.matchAll(
    /\b(?:test|it)(?:\.each[\s\S]*?\)\(|\()\s*(?:'((?:[^'\\]|\\.)*)'|"([^"]*)"|`([^`]*)`)/g,
  );
  return [...titles].map(([, single, double, template]) => single ?? double ?? template).join('\n');
}

describe('what the rows point to is there', () => {
  test.each(rows.map((row) => [row.name, row] as const))('%s', (_, row) => {
    expect(existsSync(join(root, row.code)), row.code).toBe(true);
    const source = read(row.testFile);
    expect(titlesOf(source)).toContain(row.title);
    if (row.served === 'of no rpc') return;
    const words = wordsOf(row);
    expect(
      words.some((word) => new RegExp(`\\b${word}\\b`).test(source)),
      `${row.testFile} speaks of ${words.join(' or ')}`,
    ).toBe(true);
  });
});
