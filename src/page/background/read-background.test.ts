import { expect, test } from 'vitest';
import { readBackground } from './read-background.ts';

test('what the user allowed is read as it was kept', () => {
  const kept = { keepAwake: true, sound: true };
  expect(readBackground(JSON.stringify(kept))).toEqual(kept);
});

test.each([null, '', '{', 'null', '7', '[]', '{"keepAwake":1,"sound":"yes"}'])('%j allows nothing', (text) => {
  expect(readBackground(text)).toEqual({ keepAwake: false, sound: false });
});
