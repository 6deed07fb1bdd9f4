const SOURCES: Readonly<Record<string, string>> = import.meta.glob('../../shaders/*.wgsl', {
  query: '?raw',
  import: 'default',
  eager: true,
});

/** SHA-256 over all WGSL sources, hex: what was found of other sources is not known of these. */
export async function shaderVersion(): Promise<string> {
  const text = JSON.stringify(Object.entries(SOURCES).sort());
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
