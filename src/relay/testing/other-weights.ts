import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeSafetensors } from '../../checkpoint/testing/write-safetensors.ts';
import { Random } from '../../gpu/testing/random.ts';
import { MODEL_DIR } from './relay-bench.ts';

const WEIGHTS = 'model.safetensors';

type Header = Record<string, { dtype: string; shape: number[]; data_offsets: [number, number] }>;

/** A copy of the bundled model in `folder`, its weights a fifth off. `change` has a say in what its header tells. */
export function writeOtherWeights(folder: string, seed: number, change = (header: Header): unknown => header): string {
  cpSync(MODEL_DIR, folder, { recursive: true });
  const file = readFileSync(join(MODEL_DIR, WEIGHTS));
  const headerBytes = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.toString('utf8', 8, 8 + headerBytes));
  delete header.__metadata__;
  const weights = new Float32Array(new Uint8Array(file.subarray(8 + headerBytes)).buffer);
  const noise = new Random(seed).normals(weights.length, 0.2);
  const others = weights.map((weight, at) => weight * (1 + noise[at]!));
  writeFileSync(join(folder, WEIGHTS), writeSafetensors(change(header), new Uint8Array(others.buffer)));
  return folder;
}
