// The compose file against the schema of the Compose Specification, which check-jsonschema brings along.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { packageRoot } from '../src/cli/paths.ts';

const REQUIREMENT = 'check-jsonschema==0.39.0';

/** The program, in a virtual environment of its own. */
function checkJsonschema(): string {
  const folder = join(packageRoot, '.venv', 'check-jsonschema');
  const program = join(folder, 'bin', 'check-jsonschema');
  if (!existsSync(program)) {
    execFileSync('python3', ['-m', 'venv', folder], { stdio: 'pipe', timeout: 60_000 });
    execFileSync(join(folder, 'bin', 'pip'), ['install', '-q', REQUIREMENT], { stdio: 'pipe', timeout: 120_000 });
  }
  return program;
}

test.skipIf(process.platform === 'win32' || process.env.SHOAL_LONG !== '1')(
  'the compose file is one',
  () => {
    const program = checkJsonschema();
    const check = (file: string) =>
      execFileSync(program, ['--builtin-schema', 'vendor.compose-spec', file], { encoding: 'utf8', stdio: 'pipe' });
    const compose = join(packageRoot, 'deploy/compose.yaml');
    expect(check(compose)).toContain('ok');
    // Whether it would see a mistake.
    const folder = mkdtempSync(join(tmpdir(), 'shoal-compose-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    writeFileSync(join(folder, 'compose.yaml'), readFileSync(compose, 'utf8').replace('restart:', 'restrat:'));
    let said = '';
    try {
      check(join(folder, 'compose.yaml'));
    } catch (error) {
      said = (error as { stdout: string }).stdout;
    }
    expect(said).toContain('restrat');
  },
  240_000,
);
