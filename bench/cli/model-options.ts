import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import type { ManifestQuantisation } from '../../src/checkpoint/manifest.ts';
import type { KernelFlags } from '../../src/engine/kernel-report.ts';
import type { RandomQuant } from '../core/model-request.ts';
import type { BenchOptions } from './options.ts';

const QUANTS: readonly RandomQuant[] = ['q4', 'q8', 'f16', 'f32'];

export const MODEL_USAGE = `npm run bench:model -- [options]
  --config NAME|FILE   a name in bench/configs/, or a Llama's config.json (default: SmolLM2-135M); of random weights
  --weights WHICH      random (default), a folder with safetensors, or a .gguf
  --quant FORMAT       q4 (default), q8, f16 or f32 of random weights; q4 or q8 of safetensors; a .gguf has its own
  --prompt-tokens P    (default: 64)
  --new-tokens N       at most (default: 64)
  --batch B            sequences at once; several with commas (default: 1)
  --runtime NAME       browser (default), or node (Dawn)
  --tune MODE          auto (default): kernels are tried and timed first, as a page does; off: the defaults
  --precision KIND     exact (default), or fast: f16 and int8 products where the tuner finds them faster
  --budget SECONDS     what would end later is left out (default: nothing is)`;

/** Reads the command line of bench:model; throws with a sentence. */
export function readModelOptions(args: readonly string[], root: string): BenchOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      config: { type: 'string' },
      weights: { type: 'string', default: 'random' },
      quant: { type: 'string' },
      'prompt-tokens': { type: 'string', default: '64' },
      'new-tokens': { type: 'string', default: '64' },
      batch: { type: 'string', default: '1' },
      runtime: { type: 'string', default: 'browser' },
      tune: { type: 'string', default: 'auto' },
      precision: { type: 'string', default: 'exact' },
      budget: { type: 'string' },
      out: { type: 'string', default: join(root, 'bench', 'results') },
    },
  });
  const { weights, quant, runtime, tune, precision, out } = values;
  if (runtime !== 'browser' && runtime !== 'node') throw new Error(`--runtime ${runtime}: it is browser or node`);
  if (tune !== 'auto' && tune !== 'off') throw new Error(`--tune ${tune}: it is auto or off`);
  if (precision !== 'exact' && precision !== 'fast') throw new Error(`--precision ${precision}: it is exact or fast`);
  const common = {
    kernels: { tune, precision } satisfies KernelFlags,
    promptTokens: count('--prompt-tokens', values['prompt-tokens']),
    newTokens: count('--new-tokens', values['new-tokens']),
    batches: values.batch.split(',').map((batch) => count('--batch', batch)),
    budgetMs: values.budget === undefined ? undefined : 1000 * count('--budget', values.budget),
  };
  if (quant !== undefined && !(QUANTS as readonly string[]).includes(quant))
    throw new Error(`--quant ${quant}: it is one of ${QUANTS.join(', ')}`);
  if (weights !== 'random') {
    if (values.config !== undefined) throw new Error('--config is for random weights: real ones bring their own');
    if (!existsSync(weights)) throw new Error(`--weights ${weights}: no such folder or file, nor "random"`);
    const quantisation = quantisationOf(weights, quant);
    const request = { ...common, name: basename(weights), weights: { url: '' } };
    return { what: 'model', runtime, requests: [request], model: resolve(weights), quantisation, out };
  }
  const config = values.config ?? 'SmolLM2-135M';
  const own = join(root, 'bench', 'configs', `${config}.json`);
  const file = existsSync(own) ? own : config;
  if (!existsSync(file)) {
    const names = readdirSync(join(root, 'bench', 'configs')).map((name) => basename(name, '.json'));
    throw new Error(`--config ${config}: no such file, nor one of ${names.join(', ')}`);
  }
  const made = { configText: readFileSync(file, 'utf8'), quant: (quant as RandomQuant | undefined) ?? 'q4' };
  const request = { ...common, name: basename(file, '.json'), weights: made };
  return { what: 'model', runtime, requests: [request], out };
}

function quantisationOf(weights: string, quant: string | undefined): ManifestQuantisation {
  if (quant === undefined) return 'none';
  if (quant === 'q4' || quant === 'q8') return quant;
  throw new Error(`--quant ${quant}: ${weights} is taken as it is, or quantised to q4 or q8`);
}

function count(option: string, value: string): number {
  const number = Number(value);
  if (!Number.isSafeInteger(number) || number < 1) throw new Error(`${option} is ${value}, not a count`);
  return number;
}
