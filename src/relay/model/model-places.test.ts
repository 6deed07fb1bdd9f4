import { expect, test } from 'vitest';
import { modelPlaces } from './model-places.ts';

const local = { name: 'local', hubUrl: undefined };
const ofHub = { name: 'a/b', hubUrl: 'https://hub.example/a/b/resolve/0123/gguf/' };

test('URLs of folders and the hub’s own are bases, and their origins may be asked', () => {
  expect(modelPlaces(local, [], [])).toEqual({ bases: [], origins: [] });
  expect(modelPlaces(ofHub, ['hub', 'http://10.0.0.1:81/m'], ['https://*.cdn.example'])).toEqual({
    bases: [ofHub.hubUrl, 'http://10.0.0.1:81/m/'],
    origins: ['https://hub.example', 'http://10.0.0.1:81', 'https://*.cdn.example'],
  });
});

test.each([
  [['ftp://a.example/'], [], /--model-url ftp:\/\/a\.example\/ is no URL of a folder/],
  [['https://a.example/?b'], [], /without user, query and fragment/],
  [['https://me:secret@a.example/'], [], /without user/],
  [['models'], [], /is no URL/],
  [['hub'], [], /is for models of the hub, and local is none/],
  [['https://a.example'], ["https://b.example; script-src 'unsafe-inline'"], /is no origin/],
  [['https://a.example'], ['https://b.example/path'], /is no origin/],
  [['https://a.example'], ['*'], /is no origin/],
  [[], ['https://b.example'], /give both/],
])('%j with %j is refused', (urls, cdns, why) => {
  expect(() => modelPlaces(local, urls, cdns)).toThrow(why);
});
