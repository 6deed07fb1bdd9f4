import { parsePageBuild } from '../node/page-build.ts';

/** Which build this page is; empty texts where a development server serves it. */
export function ownBuild() {
  return parsePageBuild(document.head.innerHTML);
}
