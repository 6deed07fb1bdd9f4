// How much a browser loads of the built page, gzipped, before its engine's Web Worker: by `node scripts/page-size.js`.
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { ensureBuilt, root } from './build.js';

/**
 * @typedef {object} PageSizes
 * @property {Record<string, number>} shell gzipped bytes of each file that the page loads at once
 * @property {Record<string, Record<string, number>>} views of each script that a view loads besides, by the view's name
 */

/**
 * Sizes of what is in `folder` (dist/page).
 * @param {string} folder
 * @returns {PageSizes}
 */
export function pageSizes(folder) {
  const assets = join(folder, 'assets');
  const files = readdirSync(assets);
  /** @param {string} file */
  const size = (file) => gzipSync(readFileSync(file)).length;
  /** @param {string} name */
  const source = (name) => readFileSync(join(assets, name), 'utf8');
  /**
   * These scripts and what they import at once, without what is in `known`.
   * @param {string[]} names
   * @param {ReadonlySet<string>} [known]
   */
  const closure = (names, known = new Set()) => {
    /** @type {Set<string>} */
    const found = new Set();
    for (const left = [...names]; left.length > 0; ) {
      const name = left.pop() ?? '';
      if (found.has(name) || known.has(name)) continue;
      found.add(name);
      for (const [, imported] of source(name).matchAll(/(?:\bfrom|\bimport)\s*["']\.\/([^"']+)["']/g)) {
        left.push(imported ?? '');
      }
    }
    return found;
  };
  /** @param {Iterable<string>} names */
  const sizes = (names) => Object.fromEntries([...names].map((name) => [name, size(join(assets, name))]));

  const html = readFileSync(join(folder, 'index.html'), 'utf8');
  const named = [...html.matchAll(/(?:src|href)="\/assets\/([^"]+)"/g)].map(([, name]) => name ?? '');
  const scripts = closure(named.filter((name) => name.endsWith('.js')));
  const styles = named.filter((name) => name.endsWith('.css'));
  /** @type {PageSizes['views']} */
  const views = {};
  for (const script of scripts) {
    for (const [, imported] of source(script).matchAll(/import\([`"']\.\/([^`"']+)[`"']\)/g)) {
      if (imported === undefined) continue;
      const view = basename(imported).replace(/-[\w-]{8}\.js$/, '');
      // Named after their script, or what it shares with another.
      const own = files.filter((file) => file.endsWith('.css') && file.startsWith(`${view}-`));
      views[view] = sizes([...closure([imported], scripts), ...own]);
    }
  }
  return { shell: { 'index.html': size(join(folder, 'index.html')), ...sizes([...scripts, ...styles]) }, views };
}

/** @param {Record<string, number>} sizes */
export function total(sizes) {
  return Object.values(sizes).reduce((sum, size) => sum + size, 0);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await ensureBuilt({ log: console.log });
  const { shell, views } = pageSizes(join(root, 'dist', 'page'));
  /** @type {[string, Record<string, number>][]} */
  const parts = [['page', shell], ...Object.entries(views)];
  for (const [name, sizes] of parts) {
    console.log(`${name}: ${(total(sizes) / 1000).toFixed(1)} kB gzipped`);
    for (const [file, size] of Object.entries(sizes)) console.log(`  ${file} ${(size / 1000).toFixed(1)} kB`);
  }
}
