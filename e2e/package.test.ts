// What is given to others works without the repository: the package in an empty folder, and the image's steps in another.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { packageRoot } from '../src/cli/paths.ts';
import { parseHostPort } from '../src/cli/values.ts';
import { writeEncoderFolder } from '../src/testing/encoder-folder.node.ts';
import { OUTPUT_IDS, PROMPT_IDS } from './harness/golden.ts';
import { Command, node22 } from './harness/processes.ts';
import { collect, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';

const MIB = 1024 * 1024;
// Both take packages from npm's registry.
const [LONG, CI] = [process.env.SHOAL_LONG === '1', process.env.CI === 'true'];
const noShell = process.platform === 'win32';

function emptyFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'shoal-package-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function filesUnder(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

const bytesUnder = (folder: string) => filesUnder(folder).reduce((sum, file) => sum + statSync(file).size, 0);

function ask(port: string, path: string, headers: Record<string, string>): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const asking = request({ host: '127.0.0.1', port, path, headers }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    asking.on('error', reject);
    asking.end();
  });
}

test.skipIf(noShell || !(CI || LONG))(
  "the Dockerfile's steps make a relay in an empty folder, and it runs with the settings of the compose file",
  async () => {
    const folder = emptyFolder();
    const target = join(folder, 'image');
    execFileSync('sh', [join(packageRoot, 'deploy/build-image.sh'), target], { stdio: 'pipe', timeout: 60_000 });
    expect(readdirSync(target).sort()).not.toContain('src');
    expect(existsSync(join(target, 'node_modules/vite'))).toBe(false);
    expect(bytesUnder(target)).toBeLessThan(40 * MIB);

    const token = 'an-operators-token';
    writeFileSync(join(folder, 'tokens'), `operator ${token}\n`);
    const shipped = readFileSync(join(packageRoot, 'deploy/relay.json'), 'utf8');
    const settings = JSON.parse(
      shipped.replace('/opt/shoal', target).replace('/run/secrets/tokens', join(folder, 'tokens')),
    );
    writeFileSync(join(folder, 'relay.json'), JSON.stringify({ ...settings, port: 0, 'web-port': 0 }));
    const relay = new Command(node22, [join(target, 'bin/shoal.js'), 'relay', '--config', join(folder, 'relay.json')]);
    onTestFinished(async () => {
      await relay.stop();
    });
    const [, webPort] = await relay.line(/^page +http:\/\/127\.0\.0\.1:(\d+)\/$/, 20_000);
    await relay.line(/^ready$/, 5_000);
    const authorization = `Bearer ${token}`;
    expect(await ask(webPort!, '/', { host: 'relay:8080' })).toBe(200);
    expect(await ask(webPort!, '/healthz', {})).toBe(503);
    expect(await ask(webPort!, '/metrics', { host: 'relay:8080', authorization })).toBe(200);
    expect(await ask(webPort!, '/metrics', { host: 'relay:8080' })).toBe(401);
    expect(await ask(webPort!, '/', { host: 'another.example' })).toBe(421);
    // What the systemd unit takes for a success.
    expect(await relay.stop()).toBe(143);
  },
  120_000,
);

test.skipIf(noShell || !LONG)(
  'the package is small, and its "npx shoal start" serves from a folder without the repository',
  async () => {
    const folder = emptyFolder();
    const npm = (args: string[], cwd: string) =>
      execFileSync('npm', args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: 180_000 });
    const [pack] = JSON.parse(
      npm(['pack', '--json', '--ignore-scripts', '--pack-destination', folder], packageRoot),
    ) as {
      filename: string;
      size: number;
      entryCount: number;
    }[];
    expect(pack!.size).toBeLessThan(2.5 * MIB);
    expect(pack!.entryCount).toBeLessThan(50);
    writeFileSync(join(folder, 'package.json'), '{"private": true}');
    const install = (...flags: string[]) => {
      npm(['install', ...flags, '--no-audit', '--no-fund', join(folder, pack!.filename)], folder);
      const { packages } = JSON.parse(readFileSync(join(folder, 'node_modules/.package-lock.json'), 'utf8'));
      return Object.keys(packages).map((path) => path.replace('node_modules/', ''));
    };
    const needed = install('--omit=optional');
    expect(needed.length).toBeLessThanOrEqual(29);
    const optional = install().filter((name) => !needed.includes(name));
    // Dawn and its own, and a Node 22 for this platform.
    const known = ['webgpu', '@webgpu/types', 'debug', 'ms'];
    expect(optional.filter((name) => !known.includes(name))).toEqual([expect.stringMatching(/^node-/)]);

    const npx = ['-c', 'cd "$0" && exec npx shoal "$@"', folder];
    const start = new Command('sh', [
      ...npx,
      ...['start', '--headless', '--software-gpu', '--port', '0', '--web-port', '0'],
    ]);
    onTestFinished(async () => {
      await start.stop();
    });
    await start.line(/^ready$/, 60_000);
    const [, address] = await start.line(/^worker +grpc:\/\/(\S+)$/, 0);
    const generated = await collect(
      schedulerClient(parseHostPort(address!)),
      greedyRequest(PROMPT_IDS, { maxNewTokens: 10 }),
    );
    expect(idsOf(generated)).toEqual(OUTPUT_IDS.slice(0, 10));
    await start.stop();

    // The tokenizer's thread is there too: a text has more tokens than the model takes, which is known without a node.
    const model = writeEncoderFolder(join(folder, 'embedder'), { name: 'bert', pools: true });
    const relay = new Command('sh', [...npx, ...['relay', '--model', model, '--port', '0', '--web-port', '0']]);
    onTestFinished(async () => {
      await relay.stop();
    });
    await relay.line(/^ready$/, 60_000);
    const [, embedding] = await relay.line(/^worker +grpc:\/\/(\S+)$/, 0);
    const embed = schedulerClient(parseHostPort(embedding!)).embed({ texts: ['the cat '.repeat(40)] });
    await expect(embed).rejects.toThrow('texts must fit the context of 48 tokens, got 82 of them.');
  },
  300_000,
);
