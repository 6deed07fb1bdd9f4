import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { writeSafetensors } from '../../checkpoint/testing/write-safetensors.ts';
import type { ContractError } from '../../contract/contract-error.ts';
import { writeEncoderFolder } from '../../testing/encoder-folder.node.ts';
import { openModel } from '../model/open-model.ts';
import type { ServedModel } from '../served-model.ts';
import { MODEL_DIR } from '../testing/relay-bench.ts';
import { openWeights } from './open-weights.ts';

let home: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), 'shoal-open-weights-'));
});
afterAll(() => rmSync(home, { recursive: true }));

const opened = (path: string, served: ServedModel, signal = new AbortController().signal) =>
  openWeights(path, served, { cache: join(home, 'cache'), onProgress: () => {}, signal });
const refusal = (path: string, served: ServedModel): Promise<ContractError> =>
  opened(path, served).then(
    () => Promise.reject(new Error('it was taken')),
    (error: ContractError) => error,
  );
let folders = 0;
/** A copy of the bundled model, without some of its files. */
function copy(...without: readonly string[]): string {
  const folder = join(home, `copy-${folders++}`);
  cpSync(MODEL_DIR, folder, { recursive: true });
  for (const name of without) rmSync(join(folder, name));
  return folder;
}

test('what is no file is refused before it is read: reading one would never end', async () => {
  const served = await openModel(MODEL_DIR);
  const pipe = (folder: string, name: string) => {
    execFileSync('mkfifo', [join(folder, name)]);
    return folder;
  };
  const endless = copy('config.json');
  symlinkSync('/dev/zero', join(endless, 'config.json'));
  const loop = copy('tokenizer.json');
  symlinkSync('tokenizer.json', join(loop, 'tokenizer.json'));
  const gguf = join(pipe(copy(), 'pipe.gguf'), 'pipe.gguf');
  const alone = join(pipe(copy(), 'pipe.safetensors'), 'pipe.safetensors');
  const cases = [
    [pipe(copy('model.safetensors'), 'model.safetensors'), 'is no file'],
    [pipe(copy('tokenizer.json'), 'tokenizer.json'), 'is no file'],
    [pipe(copy(), 'chat_template.jinja'), 'is no file'],
    [endless, 'is no file'],
    [loop, 'ELOOP'],
    [gguf, 'is no file'],
    [alone, 'neither a folder nor a .gguf file'],
    ['/models/\0', "can't be read"],
    ['/models/\0.safetensors', "can't be read"],
  ] as const;
  for (const [path, why] of cases) {
    expect(await refusal(path, served), path).toMatchObject({
      ...{ code: Code.InvalidArgument, field: 'disk_path' },
      message: expect.stringContaining(why),
    });
  }
});

test('an embedder that pools in another way is another model', async () => {
  const folder = (name: string) => writeEncoderFolder(join(home, name), { name: 'bert', pools: true });
  const served = await openModel(folder('mean'), { cache: join(home, 'cache') });
  const other = folder('cls');
  const settings = join(other, '1_Pooling', 'config.json');
  const flags = JSON.parse(readFileSync(settings, 'utf8'));
  writeFileSync(settings, JSON.stringify({ ...flags, pooling_mode_cls_token: true, pooling_mode_mean_tokens: false }));
  const { code, message } = await refusal(other, served);
  expect([code, message]).toEqual([
    Code.FailedPrecondition,
    expect.stringContaining('files that make its vectors in another way'),
  ]);
});

test('with a .safetensors file alone, what pooled vectors go through stays as it is', async () => {
  const folder = writeEncoderFolder(join(home, 'dense'), { name: 'bert', pools: true });
  const modules = JSON.parse(readFileSync(join(folder, 'modules.json'), 'utf8'));
  const dense = { idx: 2, name: '2', path: '2_Dense', type: 'sentence_transformers.models.Dense' };
  writeFileSync(join(folder, 'modules.json'), JSON.stringify(modules.toSpliced(2, 0, dense)));
  mkdirSync(join(folder, '2_Dense'));
  writeFileSync(
    join(folder, '2_Dense', 'config.json'),
    JSON.stringify({ in_features: 48, out_features: 2, bias: false }),
  );
  const header = { 'linear.weight': { dtype: 'F32', shape: [2, 48], data_offsets: [0, 384] } };
  writeFileSync(join(folder, '2_Dense', 'model.safetensors'), writeSafetensors(header, new Uint8Array(384)));
  const served = await openModel(folder, { cache: join(home, 'cache') });
  const weights = join(home, 'step.safetensors');
  const bytes = readFileSync(join(folder, 'model.safetensors'));
  bytes[bytes.length - 2]! ^= 1;
  writeFileSync(weights, bytes);
  const next = await opened(weights, served);
  expect(next.paths).toEqual({ ...served.paths, 'model.safetensors': weights });
  expect(next.digest).not.toBe(served.digest);
});
