import { describe, expect, it } from 'vitest';
import { CheckpointError } from './checkpoint.ts';
import { canonicalJson, digestManifest, type Manifest, parseManifest, sha256Hex } from './manifest.ts';

describe('manifest', () => {
  const manifest: Manifest = {
    name: 'm',
    quantisation: 'none',
    pieceBytes: 2,
    files: [
      { name: 'b', size: 3, sha256: 'b'.repeat(64), pieces: ['c'.repeat(64), 'd'.repeat(64)] },
      { name: 'a/c.json', size: 0, sha256: 'a'.repeat(64), pieces: [] },
    ],
  };

  it('has one text, whatever the order of its parts', async () => {
    const other: Manifest = { files: [...manifest.files].reverse(), pieceBytes: 2, quantisation: 'none', name: 'm' };
    expect(canonicalJson(other)).toBe(canonicalJson(manifest));
    expect(canonicalJson(manifest)).toBe(
      `{"files":[{"name":"a/c.json","pieces":[],"sha256":"${'a'.repeat(64)}","size":0},{"name":"b","pieces":["${'c'.repeat(64)}","${'d'.repeat(64)}"],"sha256":"${'b'.repeat(64)}","size":3}],"name":"m","pieceBytes":2,"quantisation":"none"}`,
    );
    expect(await digestManifest(parseManifest(canonicalJson(manifest), 'x'))).toBe(await digestManifest(other));
  });

  it('tells models apart that are quantised otherwise', async () => {
    const digests = (['none', 'q8', 'q4'] as const).map((quantisation) =>
      digestManifest({ ...manifest, quantisation }),
    );
    expect(new Set(await Promise.all(digests)).size).toBe(3);
  });

  it('hashes as the world does', async () => {
    expect(await sha256Hex(new TextEncoder().encode('abc'))).toBe(
      'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    );
  });

  it.each(['../x', '/x', 'a/../b', 'a//b', '', '.', 'a\\b'])('refuses a file called %j', (name) => {
    const text = JSON.stringify({ ...manifest, files: [{ ...manifest.files[1], name }] });
    expect(() => parseManifest(text, 'manifest')).toThrow(CheckpointError);
  });

  it.each([
    [{ quantisation: 'q3' }, 'quantisation'],
    [{ pieceBytes: 0 }, 'pieceBytes'],
    [{ pieceBytes: 2 ** 40 }, 'pieceBytes'],
    [{ files: [{ ...manifest.files[0], pieces: ['c'.repeat(64)] }] }, 'b: pieces'],
    [{ files: [{ ...manifest.files[0], pieces: ['c', 'd'] }] }, 'b: pieces'],
    [{ files: [{ ...manifest.files[0], size: -1 }] }, 'b: size'],
  ])('refuses %j naming what is wrong', (change, named) => {
    expect(() => parseManifest(JSON.stringify({ ...manifest, ...change }), 'manifest')).toThrow(named);
  });
});
