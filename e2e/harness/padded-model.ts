import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bundledModel } from '../../src/cli/paths.ts';

const OTHERS = ['config.json', 'generation_config.json', 'tokenizer.json', 'tokenizer_config.json'];

/** What files of a Llama may hold, and nobody reads. */
const PADDING = 'model.layers.0.self_attn.rotary_emb.inv_freq';

/** Writes the bundled model with so many bytes before its tensors that no one reads: a file of several pieces. */
export function writePaddedModel(folder: string, padding: number): { readonly size: number } {
  mkdirSync(folder, { recursive: true });
  for (const name of OTHERS) copyFileSync(join(bundledModel, name), join(folder, name));
  const file = readFileSync(join(bundledModel, 'model.safetensors'));
  const dataStart = 8 + Number(file.readBigUInt64LE(0));
  const { __metadata__: _, ...tensors } = JSON.parse(file.toString('utf8', 8, dataStart)) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  >;
  const moved = Object.entries(tensors).map(
    ([
      name,
      {
        data_offsets: [begin, end],
        ...rest
      },
    ]) => [name, { ...rest, data_offsets: [begin + padding, end + padding] }],
  );
  const first = { dtype: 'F32', shape: [padding / 4], data_offsets: [0, padding] };
  const header = Buffer.from(JSON.stringify({ [PADDING]: first, ...Object.fromEntries(moved) }));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  // No two pieces alike.
  const noise = Buffer.alloc(padding);
  for (let i = 0, state = 1; i < padding; i += 4) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    noise.writeUInt32LE(state, i);
  }
  const bytes = Buffer.concat([length, header, noise, file.subarray(dataStart)]);
  writeFileSync(join(folder, 'model.safetensors'), bytes);
  return { size: bytes.length };
}
