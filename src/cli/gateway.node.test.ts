import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { gatewayCommand } from './gateway-process.ts';
import { ensureTiktokenFolder, tiktokenFile } from './gateway-venv.ts';

const options = {
  host: '127.0.0.1',
  relay: { host: '::1', port: 5 },
  tokenizerDir: '/tok',
  extraArgs: ['--policy', 'random'],
};

test('both generations get the relay as a gRPC worker and metrics on loopback', () => {
  for (const generation of [1, 2] as const) {
    const line = gatewayCommand({ ...options, generation }, 3, 4).join(' ');
    expect(line).toContain('--worker-urls grpc://[::1]:5');
    expect(line).toContain('--host 127.0.0.1 --port 3');
    expect(line).toContain('--prometheus-host 127.0.0.1 --prometheus-port 4');
    expect(line).toContain('--policy random');
    // Generation 2 asks the relay for its tokenizer.
    expect(line.includes('--model-path /tok')).toBe(generation === 1);
  }
});

test('ranks become one line a token, in order', () => {
  expect(tiktokenFile('! 0 IQ== Ig==\n! 7 Iw==')).toBe('IQ== 0\nIg== 1\nIw== 7\n');
});

test('the vocabulary of generation 1 is rebuilt byte for byte', () => {
  // ensureTiktokenFolder checks the SHA-256 of the whole.
  const folder = ensureTiktokenFolder();
  const lines = readFileSync(join(folder, 'o200k_base.tiktoken'), 'utf8').trimEnd().split('\n');
  expect(lines.length).toBe(199_998);
  expect(createRequire(import.meta.url)('js-tiktoken/ranks/o200k_base').bpe_ranks).toContain(lines[0]!.split(' ')[0]);
});
