/** A file of this repository: from the dev server in a browser, from disk under Node. */
export async function readTestFile(path: string): Promise<Uint8Array> {
  if ('document' in globalThis || 'importScripts' in globalThis) {
    const response = await fetch(`/${path}`);
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    return new Uint8Array(await response.arrayBuffer());
  }
  // Names Vite can't follow keep Node out of the browser's bundle.
  const name = 'node:fs/promises';
  const files = (await import(/* @vite-ignore */ name)) as { readFile(file: URL): Promise<Uint8Array> };
  // A copy: Node's Buffer is a Uint8Array whose slice doesn't copy.
  return new Uint8Array(await files.readFile(new URL(`../../${path}`, import.meta.url)));
}
