import type { AttentionConfig, FeedForwardConfig } from '../decoder-config.ts';
import type { ConfigKeys } from './config-keys.ts';

/** More than any model has; a file that asks for more is broken. */
const MOST_LAYERS = 1000;

/** num_hidden_layers, or another key that says how many layers there are. */
export function readLayerCount(keys: ConfigKeys, key = 'num_hidden_layers'): number {
  const layers = keys.size(key);
  return layers <= MOST_LAYERS ? layers : keys.failOf(key, `, more layers than ${MOST_LAYERS}`);
}

/** Heads, their KV heads and size; `absent` has what a family's reference takes where keys are absent. */
export function readHeads(
  keys: ConfigKeys,
  absent: { readonly kvHeads?: number; readonly headSize?: number } = {},
): Pick<AttentionConfig, 'heads' | 'kvHeads' | 'headSize'> {
  const { hiddenSize } = keys.config;
  const heads = keys.size('num_attention_heads');
  const kvHeads = keys.size('num_key_value_heads', absent.kvHeads ?? heads, heads);
  if (heads % kvHeads !== 0) keys.fail(`num_key_value_heads ${kvHeads} does not divide num_attention_heads ${heads}`);
  const even = hiddenSize / heads;
  if (keys.get('head_dim') == null && absent.headSize === undefined && !Number.isInteger(even)) {
    keys.fail(`num_attention_heads ${heads} does not divide hidden_size ${hiddenSize}`);
  }
  const headSize = keys.size('head_dim', absent.headSize ?? even, even);
  if (headSize % 4 !== 0) keys.fail(`head_dim ${headSize} is not a multiple of 4`);
  return { heads, kvHeads, headSize };
}

/** The feed-forward network of most families: gate, up and down, with an activation under hidden_act. */
export function readGated(keys: ConfigKeys, bias: boolean): FeedForwardConfig {
  const size = keys.size('intermediate_size');
  return { kind: 'gated', size, activation: keys.activation('hidden_act', 'silu'), bias };
}

/** A window that hides nothing of any sequence is none. */
export function windowOf(keys: ConfigKeys, window: number | undefined): { readonly window?: number } {
  return window === undefined || window >= keys.config.contextLength ? {} : { window };
}

const isLayerType = (value: unknown): value is 'full_attention' | 'sliding_attention' =>
  value === 'full_attention' || value === 'sliding_attention';

/** Which layers have a window, by layer_types; undefined where the config doesn't say. */
export function readWindowedLayers(keys: ConfigKeys, layers: number): readonly boolean[] | undefined {
  return keys.perLayer('layer_types', layers, isLayerType)?.map((type) => type === 'sliding_attention');
}

/** Qwen2's and Qwen3's: unless layer_types says which, layers from max_window_layers on have the window, where it is on. */
export function readLateWindows(keys: ConfigKeys, layers: number): readonly { readonly window?: number }[] {
  const size = keys.optionalSize('sliding_window', 4096);
  const window = windowOf(keys, keys.flag('use_sliding_window', false) ? size : undefined);
  const first = keys.get('max_window_layers') ?? 28;
  if (!Number.isSafeInteger(first) || (first as number) < 0) keys.failOf('max_window_layers', ', not a count');
  const windowed = readWindowedLayers(keys, layers);
  return Array.from({ length: layers }, (_, index) =>
    (windowed?.[index] ?? index >= (first as number)) ? window : {},
  );
}

/** A cap, where there is one. */
export function capOf(cap: number | undefined): { readonly cap?: number } {
  return cap === undefined ? {} : { cap };
}

/** As many as MOST_SEGMENTS: the kernel that puts their rows together counts them in workgroup memory. */
const MOST_EXPERTS = 1024;

/** How many experts there are, under `key`, and how many of them are chosen for a token. */
export function readExpertCounts(
  keys: ConfigKeys,
  key: string,
  absent: { readonly experts: number; readonly chosen: number },
): { readonly experts: number; readonly chosen: number } {
  const experts = keys.size(key, absent.experts);
  if (experts > MOST_EXPERTS) keys.failOf(key, `, more experts than ${MOST_EXPERTS}`);
  const chosen = keys.size('num_experts_per_tok', absent.chosen);
  if (chosen > experts) keys.fail(`num_experts_per_tok is ${chosen}, of ${experts} experts`);
  return { experts, chosen };
}
