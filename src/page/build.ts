/** Which build this page is: what the build wrote into index.html; empty when served by a development server. */
export function readBuild(): { readonly packageVersion: string; readonly pageHash: string } {
  const content = document.querySelector('meta[name="shoal-build"]')?.getAttribute('content') ?? '';
  const [packageVersion = '', pageHash = ''] = content.split(' ');
  return { packageVersion, pageHash };
}
