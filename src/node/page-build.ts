import type { PageBuild } from './messages.ts';

const READ_MS = 10_000;

/** Which build the text of index.html says it is; `scripts/build.js` writes it. */
export function parsePageBuild(html: string): PageBuild {
  const content = /<meta name="shoal-build" content="([^"]*)"/.exec(html)?.[1] ?? '';
  const [packageVersion = '', pageHash = ''] = content.split(' ');
  return { packageVersion, pageHash };
}

/** Which build of the page a relay serves. */
export async function readPageBuild(relayUrl: string, signal: AbortSignal): Promise<PageBuild> {
  // Node, whose tests ask too, has no such option.
  const noStore = { cache: 'no-store' } as const;
  const response = await fetch(`${relayUrl}/`, {
    ...noStore,
    signal: AbortSignal.any([signal, AbortSignal.timeout(READ_MS)]),
  });
  if (!response.ok) throw new Error(`${relayUrl}: status ${response.status}`);
  return parsePageBuild(await response.text());
}
