import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '..');
const document = readFileSync(join(root, 'docs', 'life-of-a-request.md'), 'utf8');
const places = [...document.matchAll(/^- `([^`]+)`: (.+)$/gm)].map(([, file, names]) => ({
  file: file!,
  names: [...names!.matchAll(/`([^`]+)`/g)].map(([, name]) => name!),
}));

test('there are ten steps, each with a place in the code', () => {
  const steps = document.split(/^## (?=\d)/m).slice(1);
  expect(steps.map((step) => Number.parseInt(step, 10))).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  for (const step of steps) expect(step).toMatch(/^- `[^`]+`: `/m);
});

test.each(places)('$file has $names', ({ file, names }) => {
  expect(existsSync(join(root, file))).toBe(true);
  const source = readFileSync(join(root, file), 'utf8');
  for (const name of names) {
    // A definition: `name(` or `name<` after nothing but modifiers, or `const name =`.
    const escaped = name.replace(/[$]/g, '\\$&');
    const definition = new RegExp(
      `^\\s*(?:(?:export|async|function|private|static|public)\\*? +)*\\*?${escaped}[(<](?:.*(?:[{(,]|=>))?$|const ${escaped} =`,
      'm',
    );
    expect(definition.test(source), `${name} in ${file}`).toBe(true);
  }
});
