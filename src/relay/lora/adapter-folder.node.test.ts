import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readAdapterFolder } from './adapter-folder.ts';

const ADAPTER = new URL('../../testing/golden/lora/llama-r4-all', import.meta.url).pathname;
const [CONFIG, WEIGHTS] = ['adapter_config.json', 'adapter_model.safetensors'] as const;

let home: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), 'shoal-adapter-'));
});
afterAll(() => rmSync(home, { recursive: true }));

/** A copy of an adapter, in which one file is made anew. */
function withOther(name: string, file: string, make: (path: string) => void): string {
  const folder = join(home, name);
  cpSync(ADAPTER, folder, { recursive: true });
  rmSync(join(folder, file));
  make(join(folder, file));
  return folder;
}

test('what is no file, or can’t be read, is refused by name: reading a pipe would never end', async () => {
  const pipe = (path: string) => execFileSync('mkfifo', [path]);
  const cases = [
    [withOther('piped-config', CONFIG, pipe), `${CONFIG} is no file`],
    [withOther('piped-weights', WEIGHTS, pipe), `${WEIGHTS} is no file`],
    [withOther('endless', CONFIG, (path) => symlinkSync('/dev/zero', path)), `${CONFIG} is no file`],
    [withOther('loop', WEIGHTS, (path) => symlinkSync(path, path)), "can't be read: ELOOP"],
    [join(home, 'x'.repeat(300)), "can't be read: ENAMETOOLONG"],
    ['/adapters/\0', "can't be read"],
  ] as const;
  for (const [path, why] of cases) {
    const refused = await readAdapterFolder(path, 64).catch((error: unknown) => error);
    expect(refused, path).toMatchObject({
      ...{ code: Code.InvalidArgument, field: 'lora_path' },
      message: expect.stringContaining(why),
    });
  }
});
