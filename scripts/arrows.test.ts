import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '..');
const architecture = readFileSync(join(root, 'docs', 'architecture.md'), 'utf8');

/** The rooms under src/, with the rooms whose files each may import, as the table in docs/architecture.md says. */
const allowed = new Map(
  [...architecture.matchAll(/^\| `src\/(\w+)\/` \|.*\| ([^|]+) \|$/gm)].map(([, room, arrows]) => [
    room!,
    arrows!.trim() === 'any' ? undefined : new Set(arrows!.match(/\w+/g)),
  ]),
);

function sources(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name));
}

/** Test code may reach for what it needs; what ships may not. */
const ships = (file: string) => !/\.test\.tsx?$/.test(file) && !file.includes(`${sep}testing${sep}`);

test('every folder of src/ is in the table', () => {
  const folders = readdirSync(join(root, 'src'), { withFileTypes: true }).filter((entry) => entry.isDirectory());
  expect(folders.map((folder) => folder.name).sort()).toEqual([...allowed.keys()].sort());
});

test('imports follow the arrows of docs/architecture.md', () => {
  const wrong: string[] = [];
  for (const file of sources(join(root, 'src')).filter(ships)) {
    const [room] = relative(join(root, 'src'), file).split(sep);
    const arrows = allowed.get(room!);
    if (arrows === undefined) continue;
    for (const [, target] of readFileSync(file, 'utf8').matchAll(/from '(\.[^']+)'/g)) {
      const imported = relative(root, join(file, '..', target!)).split(sep);
      const to = imported[0] === 'src' ? imported[1]! : imported[0]!;
      if (to === room || arrows.has(to)) continue;
      // "messages of node": the page knows its Web Worker by what they tell each other.
      if (room === 'page' && to === 'node' && arrows.has('messages')) continue;
      wrong.push(`${relative(root, file)} imports ${target}`);
    }
  }
  expect(wrong).toEqual([]);
});
