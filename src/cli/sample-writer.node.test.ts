import { expect, test } from 'vitest';
import { SampleWriter } from './sample-writer.ts';

function open(samples: number) {
  const written: string[] = [];
  const writer = new SampleWriter(
    samples,
    () => 'P',
    (text) => written.push(text),
  );
  return { writer, written };
}

test('one sample streams after its prompt, without a heading', () => {
  const { writer, written } = open(1);
  expect(written).toEqual([]);
  writer.add(0, 'a');
  writer.add(0, '');
  writer.add(0, 'b');
  expect(written).toEqual(['P', 'a', 'b']);
  writer.end(0);
  expect(written.join('')).toBe('Pab\n');
});

test('several come one after the other, whichever ends first', () => {
  const { writer, written } = open(3);
  writer.add(2, 'z');
  writer.end(2);
  writer.add(1, 'x');
  writer.add(0, 'a');
  expect(written.join('')).toBe('--- sample 0 ---\nPa');
  writer.end(0);
  // The next one goes on live.
  expect(written.join('')).toBe('--- sample 0 ---\nPa\n--- sample 1 ---\nPx');
  writer.add(1, 'y');
  writer.end(1);
  expect(written.join('')).toBe('--- sample 0 ---\nPa\n--- sample 1 ---\nPxy\n--- sample 2 ---\nPz\n');
});

test('a sample without a text still stands', () => {
  const { writer, written } = open(1);
  writer.end(0);
  expect(written.join('')).toBe('P\n');
});
