/**
 * Of a page that loads itself and its Web Workers, compiles WebAssembly (xgrammar), talks to its relay, and asks `connectTo`,
 * origins, for its model's files.
 */
export const pagePolicy = (connectTo: readonly string[]) =>
  [
    "default-src 'none'",
    "script-src 'self' 'wasm-unsafe-eval'",
    "worker-src 'self'",
    ["connect-src 'self'", ...connectTo].join(' '),
    "style-src 'self'",
    "img-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');

/** On every answer of the web port. There is no CORS header: no page of another origin reads any. */
export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': pagePolicy([]),
  // Without these two a page gets no SharedArrayBuffer and no exact timer; they also keep other sites' windows out.
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
  'cross-origin-resource-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
};
