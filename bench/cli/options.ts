import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import type { ManifestQuantisation } from '../../src/checkpoint/manifest.ts';
import { QUANT_FORMATS } from '../../src/gpu/quant-format.ts';
import type { MatrixFormat } from '../../src/gpu/weight-format.ts';
import type { ModelChoice } from '../core/bench-model.ts';
import { TABLE_NAMES, type TableName } from '../core/report.ts';
import type { AnyRequest, BenchRequest, TableLines, TraceChoice } from '../core/setting.ts';
import { MODEL_USAGE, readModelOptions } from './model-options.ts';

export interface BenchOptions {
  /** Which bench; results are named after it. */
  readonly what: 'engine' | 'kernels' | 'ready' | 'model' | 'gpu';
  readonly runtime: 'node' | 'browser';
  readonly requests: readonly AnyRequest[];
  /** Of `ready` and `model`: a model to serve, as the relay's --model names it. */
  readonly model?: string;
  /** How it is quantised on load. */
  readonly quantisation?: ManifestQuantisation;
  /** Where results go, beside the screen; undefined: nowhere else. */
  readonly out: string;
}

const FORMATS: readonly MatrixFormat[] = ['f32', 'f16', 'bf16', ...QUANT_FORMATS];

export const USAGE = `npm run bench:engine -- [options]
  --config NAME|FILE   stories260K, a name in bench/configs/, or a Llama's config.json; may be given several times
                       (default: stories260K, and the decode table of SmolLM2-135M; npm run bench: all of them)
  --runtime NAME       browser (default), or node (Dawn)
  --tables A,B         of ${TABLE_NAMES.join(', ')} (default: those that the model is for)
  --weights FORMAT     f32, f16 or bf16, of random weights (default: the config's torch_dtype)
  --context N          longest context of the whole model (default: 512 on a software adapter, else the model's own)
  --trace FILE         a trace in Mooncake's format (default: bench/traces/small.jsonl)
  --trace-block N      tokens that a hash of the trace stands for (default: what fits the context, at most 512)
  --trace-speed N      times faster than written (default: 1)
  --vocabulary A,B     of the tables sampling and grammar, these vocabularies only
  --batch A,B          of the table sampling, these batches only
  --lines A,B          of the table sampling, lines with one of these texts in their names only
  --quick              fewer samples

npm run bench:ready -- [options]
  --model PATH         as the relay takes it (default: models/smollm2, which npm run model:smollm2 fetches)
  --rounds N           nodes that join, one after the other (default: 3); every second one's first request is drawn
  --first              they have no files yet, and choose their kernels
  --runtime NAME

npm run bench:kernels -- [options]
  --formats A,B        how weights are kept: ${FORMATS.join(', ')} (default: all)
  --runtime NAME, --quick

${MODEL_USAGE}

npm run bench:gpu -- [options]   all of it for a machine with a GPU, in five minutes
  --runtime NAME       node (default), or browser`;

const STORIES = 'stories260K';
const SMALL = 'SmolLM2-135M';
/** A large model says nothing about the host that the bundled one doesn't say better. */
const LARGE_TABLES: readonly TableName[] = ['decode', 'prefix', 'context', 'attention'];

/** Reads the command line; throws with a sentence. */
export function readOptions(args: readonly string[], root: string): BenchOptions {
  if (args[0] === 'model') return readModelOptions(args.slice(1), root);
  if (args[0] === 'gpu') return readSetOptions(args.slice(1), root);
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      config: { type: 'string', multiple: true },
      runtime: { type: 'string', default: 'browser' },
      tables: { type: 'string' },
      weights: { type: 'string' },
      formats: { type: 'string' },
      context: { type: 'string' },
      trace: { type: 'string', default: join(root, 'bench', 'traces', 'small.jsonl') },
      'trace-block': { type: 'string' },
      'trace-speed': { type: 'string', default: '1' },
      model: { type: 'string', default: join(root, 'models', 'smollm2') },
      rounds: { type: 'string', default: '3' },
      first: { type: 'boolean', default: false },
      vocabulary: { type: 'string' },
      batch: { type: 'string' },
      lines: { type: 'string' },
      quick: { type: 'boolean', default: false },
      out: { type: 'string', default: join(root, 'bench', 'results') },
    },
  });
  const everything = positionals.length === 0;
  const what = positionals[0] ?? 'engine';
  if (positionals.length > 1 || (what !== 'engine' && what !== 'kernels' && what !== 'ready'))
    throw new Error(`there is no bench ${positionals.join(' ')}; there are engine, kernels and ready`);
  const runtime = oneOf('--runtime', values.runtime, ['browser', 'node'] as const);
  if (what === 'ready') {
    const rounds = count('--rounds', values.rounds)!;
    const requests = Array.from({ length: rounds }, (_, round) => ({
      ...{ url: '', start: values.first ? ('first' as const) : ('kept' as const) },
      sampled: round % 2 === 1,
    }));
    return { what, runtime, requests, model: values.model, out: values.out };
  }
  if (what === 'kernels') {
    const formats = values.formats?.split(',').map((name) => oneOf('--formats', name, FORMATS)) ?? FORMATS;
    return { what, runtime, requests: [{ formats, quick: values.quick }], out: values.out };
  }
  const tables = values.tables?.split(',').map((name) => oneOf('--tables', name, TABLE_NAMES));
  const weights =
    values.weights === undefined ? undefined : oneOf('--weights', values.weights, ['f32', 'f16', 'bf16'] as const);
  const trace: TraceChoice = {
    name: basename(values.trace),
    text: readFileSync(values.trace, 'utf8'),
    block: count('--trace-block', values['trace-block']),
    speed: Number(values['trace-speed']),
  };
  if (!(trace.speed > 0)) throw new Error(`--trace-speed is ${values['trace-speed']}, not a positive number`);
  const context = count('--context', values.context);
  const counts = (option: string, list: string | undefined) => list?.split(',').map((one) => count(option, one)!);
  const only: TableLines = {
    vocabularies: counts('--vocabulary', values.vocabulary),
    batches: counts('--batch', values.batch),
    lines: values.lines?.split(','),
  };
  const names = values.config ?? (everything ? [STORIES, ...configNames(root)] : [STORIES, SMALL]);
  const requests = names.map((name): BenchRequest => {
    const model = { ...modelChoice(root, name), weights };
    const byDefault =
      name === STORIES ? TABLE_NAMES : values.config || everything ? LARGE_TABLES : (['decode'] as const);
    return { model, tables: tables ?? byDefault, quick: values.quick, context, trace, only };
  });
  return { what, runtime, requests, out: values.out };
}

function readSetOptions(args: readonly string[], root: string): BenchOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      runtime: { type: 'string', default: 'node' },
      out: { type: 'string', default: join(root, 'bench', 'results') },
    },
  });
  const runtime = oneOf('--runtime', values.runtime, ['browser', 'node'] as const);
  return { what: 'gpu', runtime, requests: [], out: values.out };
}

function configNames(root: string): string[] {
  return readdirSync(join(root, 'bench', 'configs'))
    .map((file) => basename(file, '.json'))
    .sort();
}

function modelChoice(root: string, name: string): Omit<ModelChoice, 'weights'> {
  if (name === STORIES) {
    const folder = `models/${STORIES}`;
    return { name, folder, configText: readFileSync(join(root, folder, 'config.json'), 'utf8') };
  }
  const own = join(root, 'bench', 'configs', `${name}.json`);
  const file = existsSync(own) ? own : name;
  if (!existsSync(file))
    throw new Error(`--config ${name}: no such file, nor one of ${[STORIES, ...configNames(root)].join(', ')}`);
  return { name: basename(file, '.json'), folder: undefined, configText: readFileSync(file, 'utf8') };
}

function oneOf<T extends string>(option: string, value: string, choices: readonly T[]): T {
  if (!(choices as readonly string[]).includes(value))
    throw new Error(`${option} ${value}: it is one of ${choices.join(', ')}`);
  return value as T;
}

function count(option: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  const number = Number(value);
  if (!Number.isSafeInteger(number) || number < 1) throw new Error(`${option} is ${value}, not a count`);
  return number;
}
