import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { runProgram } from './program.ts';

const root = join(import.meta.dirname, '..', '..');
const DOCS = ['README.md', 'docs/security.md', 'docs/operations.md', 'docs/relay-protocol.md'];
/** Of other programs than shoal. */
const OTHERS = new Set([
  ...['--model-path', '--worker-urls', '--prometheus-host', '--prometheus-port', '--log-level', '--policy'],
  ...['--system', '--long', '--runtime', '--minutes', '--project', '--omit'],
  // Of deploy/: docker, npm, pip and tar.
  ...['--build', '--target', '--from', '--no-cache-dir', '--strip-components', '--pack-destination', '--loglevel'],
  ...['--ignore-scripts', '--no-audit', '--no-fund'],
  // Of Node.
  '--max-semi-space-size',
]);

const known = new Set<string>();
let relayHelp = '';
beforeAll(async () => {
  for (const command of ['start', 'relay', 'node', 'generate', 'embed', 'loads', 'gateway']) {
    let help = '';
    const write = (text: string) => {
      help += text;
    };
    await runProgram([command, '--help'], '0', { write, writeError: write });
    if (command === 'relay') relayHelp = help;
    for (const [flag] of help.matchAll(/--[a-z][a-z0-9-]*/g)) known.add(flag);
  }
});

test.each([...DOCS, ...readdirSync(join(root, 'deploy')).map((name) => `deploy/${name}`)])(
  'each flag that %s names is one',
  (file) => {
    const text = readFileSync(join(root, file), 'utf8');
    const flags = new Set([...text.matchAll(/(?<=^|[\s`"(|])--[a-z][a-z0-9-]*/gm)].map(([flag]) => flag));
    expect([...flags].filter((flag) => !known.has(flag) && !OTHERS.has(flag))).toEqual([]);
  },
);

test.each(['docs/operations.md', 'deploy/relay.json'])('the settings that %s shows are settings', (file) => {
  const text = readFileSync(join(root, file), 'utf8');
  const shown = JSON.parse(/```json\n([^`]+)```/.exec(text)?.[1] ?? text) as object;
  expect(Object.keys(shown).filter((key) => !relayHelp.includes(`--${key} `))).toEqual([]);
});
