import { CheckpointError } from './checkpoint.ts';

/** What an adapter_config.json says of a LoRA adapter (https://huggingface.co/docs/peft, LoraConfig). */
export interface PeftConfig {
  /** What errors call it. */
  readonly name: string;
  /** By which factor a module's B · A is multiplied. */
  scaling(module: string): number;
  /** `r`: of modules that no pattern gives another. */
  readonly ownRank: number;
  /** Rows of a module's A. */
  rank(module: string): number;
  /**
   * Whether the module is to be adapted; undefined: the config has a pattern for it, and the tensors that are there say
   * which modules it met.
   */
  adapts(module: string): boolean | undefined;
  /** Names of `target_modules` where they are a list. */
  readonly targets: readonly string[] | undefined;
}

/** Settings that change nothing once an adapter is trained, whatever they say. */
const OF_TRAINING = [
  'auto_mapping',
  'base_model_name_or_path',
  'ensure_weight_tying',
  // PEFT's tensors have the same shapes with it.
  'fan_in_fan_out',
  'inference_mode',
  'lora_dropout',
  'megatron_core',
  'peft_version',
  'qalora_group_size',
  'revision',
  'task_type',
] as const;

/** Settings that are served below. */
const READ = [
  'alpha_pattern',
  'bias',
  'init_lora_weights',
  'layers_pattern',
  'layers_to_transform',
  'lora_alpha',
  'peft_type',
  'r',
  'rank_pattern',
  'target_modules',
  'use_rslora',
] as const;

const KNOWN: ReadonlySet<string> = new Set([...OF_TRAINING, ...READ]);

/** Ways to begin that leave the model's own weights as they are; others change these too. */
const PLAIN_STARTS: ReadonlySet<unknown> = new Set([undefined, null, true, false, 'gaussian', 'orthogonal', 'eva']);

/** Parses an adapter_config.json. Throws CheckpointError naming `file` and the setting, also for one that it doesn't know. */
export function parsePeftConfig(text: string, file: string): PeftConfig {
  const raw = parseObject(text, file);
  const fail = (key: string, reason: string): never => {
    throw new CheckpointError(`${file}: ${key} ${reason}`);
  };
  const show = (value: unknown) => JSON.stringify(value) ?? 'undefined';
  if (raw.peft_type !== 'LORA') fail('peft_type', `is ${show(raw.peft_type)}, and only "LORA" is served`);
  if ((raw.bias ?? 'none') !== 'none') fail('bias', `is ${show(raw.bias)}, and only "none" is served`);
  const start = raw.init_lora_weights;
  if (!PLAIN_STARTS.has(start)) fail('init_lora_weights', `is ${show(start)}, which changes the model's own weights`);
  for (const [key, value] of Object.entries(raw)) {
    if (!KNOWN.has(key) && !isUnset(value)) fail(key, `is ${show(value)}, which is not served`);
  }
  const rank = (value: unknown, key: string) =>
    Number.isSafeInteger(value) && (value as number) > 0
      ? (value as number)
      : fail(key, `is ${show(value)}, not a rank`);
  const alpha = (value: unknown, key: string) =>
    typeof value === 'number' && Number.isFinite(value) ? value : fail(key, `is ${show(value)}, not a number`);
  if (typeof (raw.use_rslora ?? false) !== 'boolean') fail('use_rslora', `is ${show(raw.use_rslora)}, not a boolean`);
  const ranks = readPattern(raw, 'rank_pattern', rank, fail);
  const alphas = readPattern(raw, 'alpha_pattern', alpha, fail);
  const ownRank = rank(raw.r, 'r');
  const ownAlpha = alpha(raw.lora_alpha, 'lora_alpha');
  const rankOf = (module: string) => ranks.find(([name]) => isNamed(module, name))?.[1] ?? ownRank;
  const alphaOf = (module: string) => alphas.find(([name]) => isNamed(module, name))?.[1] ?? ownAlpha;
  const targets = readTargets(raw.target_modules, fail);
  const layers = readLayers(raw, fail);
  return {
    name: file,
    ownRank,
    rank: rankOf,
    scaling: (module) => alphaOf(module) / (raw.use_rslora ? Math.sqrt(rankOf(module)) : rankOf(module)),
    adapts(module) {
      if (typeof targets === 'string') return targets === 'all-linear' ? true : undefined;
      // A whole name is met whatever its layer.
      return targets.includes(module) || (targets.some((name) => isNamed(module, name)) && layers(module));
    },
    targets: typeof targets === 'string' ? undefined : targets,
  };
}

type Fail = (key: string, reason: string) => never;

/** PEFT's own way: a name is a module's whole one, or what it ends with behind a dot. */
export function isNamed(module: string, name: string): boolean {
  return module === name || module.endsWith(`.${name}`);
}

/** Names, or 'all-linear', or a regular expression. */
function readTargets(value: unknown, fail: Fail): readonly string[] | string {
  if (typeof value === 'string' && value !== '') return value;
  if (isStrings(value) && value.length > 0) {
    // PEFT saves a shorthand that it made names of as these; one that is left is alone.
    return value.length === 1 && value[0] === 'all-linear' ? 'all-linear' : value;
  }
  return fail('target_modules', `is ${JSON.stringify(value)}, not names of modules`);
}

/** [name, value] of a pattern's keys, in order; only names, whole or ends of them, are served. */
function readPattern<T>(
  raw: Readonly<Record<string, unknown>>,
  key: string,
  read: (value: unknown, key: string) => T,
  fail: Fail,
): [string, T][] {
  const value = raw[key] ?? {};
  if (typeof value !== 'object' || Array.isArray(value)) return fail(key, `is ${JSON.stringify(value)}, not an object`);
  return Object.entries(value as Record<string, unknown>).map(([pattern, one]) => {
    const name = pattern.replace(/^\^/, '').replace(/\$$/, '').replaceAll('\\.', '.');
    if (!/^[\w.-]+$/.test(name)) fail(key, `has ${JSON.stringify(pattern)}, and only names of modules are served`);
    return [name, read(one, `${key}'s ${JSON.stringify(pattern)}`)];
  });
}

/** Whether a module lies in one of layers_to_transform; one outside of all layers does not. */
function readLayers(raw: Readonly<Record<string, unknown>>, fail: Fail): (module: string) => boolean {
  const { layers_to_transform: layers, layers_pattern: pattern } = raw;
  if (layers === undefined || layers === null) {
    if (!isUnset(pattern)) fail('layers_pattern', 'is set without layers_to_transform');
    return () => true;
  }
  const numbers = Array.isArray(layers) ? layers : [layers];
  if (!numbers.every((layer) => Number.isSafeInteger(layer) && layer >= 0)) {
    fail('layers_to_transform', `is ${JSON.stringify(layers)}, not numbers of layers`);
  }
  const names = isUnset(pattern) ? [] : Array.isArray(pattern) ? pattern : [pattern];
  if (!isStrings(names) || !names.every((name) => /^\w+$/.test(name))) {
    fail('layers_pattern', `is ${JSON.stringify(pattern)}, and only names are served`);
  }
  return (module) => {
    const parts = module.split('.');
    // The last number in the name, as PEFT's greedy pattern finds it.
    const at = parts.findLastIndex(
      (part, i) =>
        i > 0 && i < parts.length - 1 && /^\d+$/.test(part) && (names.length === 0 || names.includes(parts[i - 1]!)),
    );
    return at > 0 && numbers.includes(Number(parts[at]));
  };
}

/** What a setting is that PEFT writes of every adapter and that this one doesn't use. */
function isUnset(value: unknown): boolean {
  if (value === null || value === undefined || value === false) return true;
  return typeof value === 'object' && Object.keys(value as object).length === 0;
}

function isStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'string');
}

function parseObject(text: string, file: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new CheckpointError(`${file}: not JSON (${(error as Error).message})`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new CheckpointError(`${file}: not a JSON object`);
  }
  return value as Record<string, unknown>;
}
