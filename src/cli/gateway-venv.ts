import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { CliError, messageOf } from './errors.ts';
import { runInstaller } from './installer.ts';
import { packageRoot } from './paths.ts';

export type Generation = 1 | 2;

export const REQUIREMENTS: Readonly<Record<Generation, string>> = {
  1: 'sglang-router==0.3.2',
  2: 'smg==1.13.0',
};

const PROBE_BOUND_MS = 15_000;
const VENV_BOUND_MS = 120_000;
const PIP_BOUND_MS = 300_000;

/** A Python ≥ 3.9 on the path, or undefined. */
export async function findPython(signal?: AbortSignal): Promise<string | undefined> {
  const probe = ['-c', 'import sys; sys.exit(0 if sys.version_info >= (3, 9) else 1)'];
  for (const name of process.platform === 'win32' ? ['python', 'python3', 'py'] : ['python3', 'python']) {
    if ((await runInstaller(name, probe, { boundMs: PROBE_BOUND_MS, signal })).code === 0) return name;
  }
  return undefined;
}

/** Why the gateway cannot be had here; undefined where it can be tried. */
export async function missingForGateway(signal?: AbortSignal): Promise<string | undefined> {
  return (await findPython(signal)) === undefined ? 'no Python 3.9 or newer is on the path' : undefined;
}

/**
 * The Python of the gateway's virtual environment in .venv/, made on first use. The requirement is written down
 * last, so a half-made environment is made again.
 */
export async function ensureGatewayVenv(
  generation: Generation,
  log: (line: string) => void,
  signal?: AbortSignal,
): Promise<string> {
  const requirement = REQUIREMENTS[generation];
  const folder = join(packageRoot, '.venv', `gateway${generation}`);
  const marker = join(folder, 'shoal-requirement.txt');
  const python = process.platform === 'win32' ? join(folder, 'Scripts', 'python.exe') : join(folder, 'bin', 'python');
  if (existsSync(marker) && readFileSync(marker, 'utf8') === requirement && existsSync(python)) return python;

  const system = await findPython(signal);
  if (system === undefined) {
    throw new CliError('the gateway needs Python 3.9 or newer, and none is on the path.');
  }
  log(`Installing ${requirement} into .venv/gateway${generation} …`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(packageRoot, '.venv'), { recursive: true });
  await install(
    system,
    ['-m', 'venv', folder],
    { boundMs: VENV_BOUND_MS, signal },
    'Python could not make a virtual environment',
  );
  await install(
    python,
    ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', requirement],
    { boundMs: PIP_BOUND_MS, signal },
    `pip could not install ${requirement}`,
  );
  writeFileSync(marker, requirement);
  return python;
}

async function install(
  command: string,
  args: string[],
  options: { boundMs: number; signal: AbortSignal | undefined },
  failure: string,
): Promise<void> {
  const { code, late, last } = await runInstaller(command, args, options);
  if (late) throw new CliError(`${failure} within ${options.boundMs / 1000} s.`);
  if (code !== 0) throw new CliError(`${failure}: ${last}`);
}

const O200K_SHA256 = '446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d';

/**
 * A folder with `o200k_base.tiktoken` for generation 1, which loads that vocabulary at every start and gives up
 * where it cannot download it. The ranks in npm's js-tiktoken rebuild the file byte for byte.
 */
export function ensureTiktokenFolder(): string {
  const folder = join(packageRoot, '.cache', 'tiktoken');
  const file = join(folder, 'o200k_base.tiktoken');
  if (existsSync(file) && sha256(readFileSync(file)) === O200K_SHA256) return folder;
  let text: string;
  try {
    text = tiktokenFile(createRequire(import.meta.url)('js-tiktoken/ranks/o200k_base').bpe_ranks);
  } catch (error) {
    throw new CliError(`generation 1 needs npm's js-tiktoken, which cannot be read: ${messageOf(error)}`);
  }
  if (sha256(text) !== O200K_SHA256)
    throw new CliError('the o200k_base ranks of js-tiktoken are not the expected ones.');
  mkdirSync(folder, { recursive: true });
  const scratch = `${file}.${process.pid}`;
  writeFileSync(scratch, text);
  renameSync(scratch, file);
  return folder;
}

/** js-tiktoken packs ranks as lines of `! <first rank> <token> <token> …`; the file has a line for each. */
export function tiktokenFile(ranks: string): string {
  const lines: string[] = [];
  for (const line of ranks.split('\n')) {
    if (line === '') continue;
    const [, first, ...tokens] = line.split(' ');
    tokens.forEach((token, i) => {
      lines.push(`${token} ${Number(first) + i}\n`);
    });
  }
  return lines.join('');
}

function sha256(data: string | Buffer): string {
  return createHash('sha256').update(data).digest('hex');
}
