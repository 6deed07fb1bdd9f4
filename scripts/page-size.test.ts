import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ensureBuilt, root } from './build.js';
import { pageSizes, total } from './page-size.js';

const MOST_BYTES = 150_000;

test('the page and each of its views are at most 150 KB, gzipped, before the engine', async () => {
  await ensureBuilt();
  const { shell, views } = pageSizes(join(root, 'dist', 'page'));
  expect(Object.keys(views).sort()).toEqual(['fleet-view', 'playground-view']);
  // Charts, tokenizer, templates and engine come when they are used.
  expect(Object.keys(shell).join()).not.toMatch(/worker|uplot|token|jinja|fleet-view|playground-view/i);
  for (const [view, sizes] of Object.entries(views)) {
    expect(total(shell) + total(sizes), `${view}: ${JSON.stringify({ ...shell, ...sizes })}`).toBeLessThan(MOST_BYTES);
  }
}, 180_000);

test('what a script imports counts, once, and what it may load later does not', () => {
  const folder = mkdtempSync(join(tmpdir(), 'shoal-page-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'assets'));
  const files = {
    'index.html': '<script src="/assets/index-aaaaaaaa.js"></script><link href="/assets/index-bbbbbbbb.css">',
    'assets/index-aaaaaaaa.js':
      'import{a}from"./shared-cccccccc.js";import"./side-dddddddd.js";import(`./fleet-view-eeeeeeee.js`);new Worker("/assets/worker-ffffffff.js")',
    'assets/index-bbbbbbbb.css': 'a{}',
    'assets/shared-cccccccc.js': 'export let a',
    'assets/side-dddddddd.js': 'import{a}from"./shared-cccccccc.js"',
    'assets/fleet-view-eeeeeeee.js':
      'import{a}from"./shared-cccccccc.js";import{b}from"./more-gggggggg.js";import(`./late-hhhhhhhh.js`)',
    'assets/fleet-view-iiiiiiii.css': 'b{}',
    'assets/more-gggggggg.js': 'export{a as b}from"./shared-cccccccc.js"',
    'assets/late-hhhhhhhh.js': 'late',
    'assets/worker-ffffffff.js': 'worker',
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const { shell, views } = pageSizes(folder);
  expect(Object.keys(shell).sort()).toEqual([
    'index-aaaaaaaa.js',
    'index-bbbbbbbb.css',
    'index.html',
    'shared-cccccccc.js',
    'side-dddddddd.js',
  ]);
  expect(Object.keys(views)).toEqual(['fleet-view']);
  expect(Object.keys(views['fleet-view']!).sort()).toEqual([
    'fleet-view-eeeeeeee.js',
    'fleet-view-iiiiiiii.css',
    'more-gggggggg.js',
  ]);
  expect(Object.values(shell).every((size) => size > 20)).toBe(true);
});
