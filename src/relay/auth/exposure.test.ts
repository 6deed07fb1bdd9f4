import { expect, test } from 'vitest';
import { type ExposureSettings, exposureOf } from './exposure.ts';

const DEFAULT: ExposureSettings = {
  webHost: '127.0.0.1',
  grpcHost: '127.0.0.1',
  hosts: [],
  allowFrom: [],
  asksTokens: false,
  open: false,
  tls: false,
};
const of = (changes: Partial<ExposureSettings>) => exposureOf({ ...DEFAULT, ...changes });

test.each<[Partial<ExposureSettings>, string]>([
  [{ webHost: '0.0.0.0' }, '--web-host 0.0.0.0 opens the web port to others: give --node-token'],
  [{ webHost: '::' }, '--web-host :: opens the web port'],
  [{ webHost: 'shoal.example' }, '--web-host shoal.example opens the web port'],
  [{ hosts: ['localhost', 'shoal.example'] }, '--host shoal.example opens the web port'],
  [{ webHost: '0.0.0.0', open: true, asksTokens: true }, '--open lets everybody do everything: give it, or tokens.'],
  [{ grpcHost: '10.0.0.1' }, '--grpc-listen 10.0.0.1 opens the gRPC port to others, which knows no tokens'],
])('%j does not start', (changes, message) => {
  expect(() => of(changes)).toThrow(message);
});

test.each<[Partial<ExposureSettings>, RegExp[]]>([
  [{}, []],
  [{ webHost: 'localhost', hosts: ['localhost'] }, []],
  [{ webHost: '::1', grpcHost: '::1', asksTokens: true }, []],
  [{ hosts: ['shoal.example'], asksTokens: true }, []],
  [{ webHost: '0.0.0.0', asksTokens: true, tls: true }, []],
  [{ webHost: '0.0.0.0', asksTokens: true }, [/in the clear/]],
  [{ webHost: '0.0.0.0', open: true, tls: true }, [/everybody who reaches the web port/]],
  [
    { grpcHost: '0.0.0.0', allowFrom: ['10.0.0.0/8'] },
    [/plain text without tokens, and open to all of 10\.0\.0\.0\/8/],
  ],
])('%j starts, with a word of warning where one is due', (changes, warnings) => {
  expect(of(changes)).toEqual(warnings.map((pattern) => expect.stringMatching(pattern)));
});
