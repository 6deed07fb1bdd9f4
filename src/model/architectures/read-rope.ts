import type { RopeConfig } from '../decoder-config.ts';
import { longropeAttentionFactor, type RopeScaling, ropeConfig, yarnAttentionFactor } from '../rope-config.ts';
import type { ConfigKeys } from './config-keys.ts';

export interface RopeDefaults {
  readonly theta: number;
  /** Kinds of scaling that the family's reference has beside default. */
  readonly kinds?: readonly string[];
  /** Part of a head that is rotated; absent: the family rotates whole heads and has no such key. */
  readonly partial?: number;
  /** Of longrope, where neither the top level nor its own keys say it. */
  readonly originalContext?: number;
}

type Keys = Readonly<Record<string, unknown>>;

/** Kinds that any family of the reference may have. */
const KINDS = ['linear', 'llama3', 'yarn', 'dynamic'];

/**
 * The rotary embedding that a config asks for: rope_theta with rope_scaling, or the newer rope_parameters with both in
 * it. Throws CheckpointError naming the key.
 */
export function readRope(keys: ConfigKeys, headSize: number, defaults: RopeDefaults): RopeConfig {
  const rope = new RopeKeys(keys, ropeKey(keys));
  const theta = rope.theta('rope_theta', defaults.theta);
  const partial = rope.partial(defaults.partial ?? 1);
  if (partial !== 1 && defaults.partial === undefined) {
    keys.fail(`partial_rotary_factor is ${partial}; only 1 is served`);
  }
  return rope.read(rotatedOf(keys, headSize, partial), theta, defaults.kinds ?? KINDS, defaults.originalContext);
}

/** Gemma 3's two: of layers with a window, and of those without, which alone are scaled. */
export function readLayerRopes(
  keys: ConfigKeys,
  headSize: number,
  thetas: { readonly local: number; readonly global: number },
): { readonly local: RopeConfig; readonly global: RopeConfig } {
  const key = ropeKey(keys);
  const nested = key === 'rope_parameters' ? (keys.raw[key] as Keys) : {};
  for (const type of Object.keys(nested)) {
    if (type !== 'full_attention' && type !== 'sliding_attention') {
      keys.fail(`${key}.${type} is ${JSON.stringify(nested[type])}, which is no type of layer`);
    }
  }
  const of = (type: string) =>
    new RopeKeys(keys, nested[type] === undefined ? undefined : `${key}.${type}`, nested[type]);
  const local = of('sliding_attention');
  const global =
    nested.full_attention === undefined && key === 'rope_scaling' ? new RopeKeys(keys, key) : of('full_attention');
  const rotated = rotatedOf(keys, headSize, 1);
  return {
    local: local.read(rotated, local.theta('rope_local_base_freq', thetas.local), KINDS),
    global: global.read(rotated, global.theta('rope_theta', thetas.global), KINDS),
  };
}

/** The key that has the scaling; undefined where none has. */
function ropeKey(keys: ConfigKeys): 'rope_scaling' | 'rope_parameters' | undefined {
  const [scaling, parameters] = [keys.get('rope_scaling') ?? undefined, keys.get('rope_parameters') ?? undefined];
  if (scaling !== undefined && parameters !== undefined && JSON.stringify(scaling) !== JSON.stringify(parameters)) {
    keys.fail('rope_scaling and rope_parameters are both there, and differ');
  }
  return parameters !== undefined ? 'rope_parameters' : scaling !== undefined ? 'rope_scaling' : undefined;
}

function rotatedOf(keys: ConfigKeys, headSize: number, partial: number): number {
  const rotated = Math.trunc(headSize * partial);
  return rotated > 0 && rotated % 2 === 0
    ? rotated
    : keys.fail(`${rotated} of a head's ${headSize} numbers can't be rotated in pairs`);
}

/** The keys of one object that says how to rotate. */
class RopeKeys {
  readonly #keys: ConfigKeys;
  readonly #name: string;
  readonly #object: Keys;
  readonly #read = new Set(['rope_type', 'type']);

  constructor(keys: ConfigKeys, name: string | undefined, object: unknown = name === undefined ? {} : keys.raw[name]) {
    this.#keys = keys;
    this.#name = name ?? 'rope_scaling';
    if (typeof object !== 'object' || object === null || Array.isArray(object)) {
      keys.fail(`${this.#name} is ${JSON.stringify(object)}, not an object`);
    }
    this.#object = object as Keys;
  }

  /** In the object, else at the top level under `outer`. */
  theta(outer: string, absent: number): number {
    const theta = this.#outer('rope_theta', outer, absent);
    return theta > 1 ? theta : this.#keys.fail(`${outer} is ${theta}, not above 1`);
  }

  partial(absent: number): number {
    const partial = this.#outer('partial_rotary_factor', 'partial_rotary_factor', absent);
    return partial <= 1 ? partial : this.#keys.fail(`partial_rotary_factor is ${partial}, more than a head`);
  }

  #outer(key: string, outer: string, absent: number): number {
    const inner = this.#number(key);
    const value = this.#keys.optionalPositive(outer);
    if (inner !== undefined && value !== undefined && inner !== value) {
      this.#keys.fail(`${outer} is ${value}, and ${this.#name}.${key} ${inner}`);
    }
    return inner ?? value ?? absent;
  }

  read(rotated: number, theta: number, kinds: readonly string[], original?: number): RopeConfig {
    const { rope_type: newer, type: older } = this.#object;
    if (newer != null && older != null && newer !== older) {
      this.#keys.fail(`${this.#name}.type is ${JSON.stringify(older)}, and its rope_type ${JSON.stringify(newer)}`);
    }
    const kind = newer ?? older ?? 'default';
    // Early Phi-3 files call it so.
    const known = kinds.includes('longrope') && (kind === 'su' || kind === 'yarn') ? 'longrope' : kind;
    if (known !== 'default' && !kinds.includes(known as string)) {
      const key = newer == null ? 'type' : 'rope_type';
      this.#keys.fail(`${this.#name}.${key} is ${JSON.stringify(kind)}; known: ${['default', ...kinds].join(', ')}`);
    }
    const scaling = this.#scaling(known as RopeScaling['kind'] | 'dynamic', rotated, original);
    for (const [key, value] of Object.entries(this.#object)) {
      if (!this.#read.has(key) && value !== null && value !== false) {
        this.#keys.fail(`${this.#name}.${key} is ${JSON.stringify(value)}, a setting that is not served`);
      }
    }
    return ropeConfig(rotated, theta, scaling);
  }

  #scaling(kind: RopeScaling['kind'] | 'dynamic', rotated: number, original?: number): RopeScaling {
    switch (kind) {
      case 'dynamic':
        // The base grows with sequences longer than max_position_embeddings, and none is.
        this.#needed('factor');
        return { kind: 'default' };
      case 'default':
        // Newer files of Phi-3 have it in any case.
        this.#number('original_max_position_embeddings');
        return { kind };
      case 'linear':
        return { kind, factor: this.#needed('factor') };
      case 'llama3': {
        const [lowFactor, highFactor] = [this.#needed('low_freq_factor'), this.#needed('high_freq_factor')];
        if (lowFactor >= highFactor) this.#fail('low_freq_factor', 'not under high_freq_factor');
        const originalContext = this.#needed('original_max_position_embeddings');
        return { kind, factor: this.#needed('factor'), lowFactor, highFactor, originalContext };
      }
      case 'yarn':
        return this.#yarn();
      case 'longrope':
        return this.#longrope(rotated, original);
    }
  }

  #yarn(): RopeScaling {
    // Whether the stretch was trained, which changes nothing here; and what vLLM multiplies the factor by: the reference
    // reads attention_factor alone.
    for (const key of ['finetuned', 'attn_factor']) this.#value(key);
    const context = this.#keys.size('max_position_embeddings');
    const originalContext = this.#number('original_max_position_embeddings') ?? context;
    const factor = this.#number('factor') ?? context / originalContext;
    const [mscale, mscaleAll] = [this.#number('mscale'), this.#number('mscale_all_dim')];
    const told = this.#number('attention_factor');
    const computed =
      mscale !== undefined && mscaleAll !== undefined
        ? yarnAttentionFactor(factor, mscale) / yarnAttentionFactor(factor, mscaleAll)
        : yarnAttentionFactor(factor);
    const truncate = this.#value('truncate') ?? true;
    if (typeof truncate !== 'boolean') this.#fail('truncate', 'neither true nor false');
    return {
      kind: 'yarn',
      factor,
      originalContext,
      betaFast: this.#number('beta_fast') ?? 32,
      betaSlow: this.#number('beta_slow') ?? 1,
      truncate: truncate as boolean,
      attentionFactor: told ?? computed,
    };
  }

  /**
   * The reference takes the short factors while a sequence fits the original context and the long ones from then on,
   * so that keys of before and after don't go together. Here the model's context decides once.
   */
  #longrope(rotated: number, absent?: number): RopeScaling {
    const keys = this.#keys;
    const context = keys.size('max_position_embeddings');
    const inner = this.#number('original_max_position_embeddings');
    // The one at the top level wins, and the factor is then that of the contexts.
    const outer = keys.optionalPositive('original_max_position_embeddings', inner === undefined ? absent : undefined);
    const originalContext = outer ?? inner ?? context;
    const told = this.#number('factor');
    const factor = outer === undefined && told !== undefined ? told : context / originalContext;
    const [short, long] = [this.#factors('short_factor', rotated), this.#factors('long_factor', rotated)];
    return {
      kind: 'longrope',
      factors: keys.config.contextLength > originalContext ? long : short,
      attentionFactor: this.#number('attention_factor') ?? longropeAttentionFactor(factor, originalContext),
    };
  }

  #factors(key: string, rotated: number): readonly number[] {
    const value = this.#value(key);
    const isFactor = (each: unknown) => typeof each === 'number' && Number.isFinite(each) && each > 0;
    if (Array.isArray(value) && value.length === rotated / 2 && value.every(isFactor)) return value;
    return this.#fail(key, `not ${rotated / 2} positive numbers`);
  }

  #value(key: string): unknown {
    this.#read.add(key);
    return this.#object[key];
  }

  #needed(key: string): number {
    return this.#number(key) ?? this.#fail(key, 'not a positive number');
  }

  #number(key: string): number | undefined {
    const value = this.#value(key);
    if (value === undefined || value === null) return undefined;
    if (typeof value === 'number' && Number.isFinite(value) && value > 0) return value;
    return this.#fail(key, 'not a positive number');
  }

  #fail(key: string, reason: string): never {
    return this.#keys.fail(`${this.#name}.${key} is ${JSON.stringify(this.#object[key])}, ${reason}`);
  }
}
