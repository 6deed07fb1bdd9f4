import type { ByteSource } from '../checkpoint/byte-source.ts';
import { type LowRankUpdate, readPeftAdapter } from '../checkpoint/peft-adapter.ts';
import { parsePeftConfig } from '../checkpoint/peft-config.ts';
import { openSafetensors } from '../checkpoint/safetensors.ts';
import type { TextPart } from '../checkpoint/text-part.ts';
import { type AdapterSite, type LayerSites, SITE_KINDS } from './adapter-sites.ts';

/** A PEFT adapter's files. */
export interface AdapterFiles {
  /** Of adapter_config.json. */
  readonly config: string;
  /** adapter_model.safetensors */
  readonly weights: ByteSource;
}

/** What an adapter adds at a site, module by module; undefined: nothing. */
export type SiteUpdates = readonly (LowRankUpdate | undefined)[];

/** What it adds in one layer. */
export type LayerUpdates = Readonly<Record<(typeof SITE_KINDS)[number], SiteUpdates>>;

/** Reads an adapter of a model with these sites, layer by layer. Throws CheckpointError; see readPeftAdapter. */
export async function readAdapter(
  { config, weights }: AdapterFiles,
  layers: readonly LayerSites[],
  maxRank: number,
  textPart?: TextPart,
): Promise<readonly LayerUpdates[]> {
  const parsed = parsePeftConfig(config, 'adapter_config.json');
  const modules = layers.flatMap((sites) => SITE_KINDS.flatMap((kind) => sites[kind]?.modules ?? []));
  const updates = await readPeftAdapter(parsed, await openSafetensors(weights), modules, maxRank, textPart);
  const at = (site: AdapterSite | undefined): SiteUpdates =>
    (site?.modules ?? []).map(({ module, first, count }) => {
      const update = updates.get(module);
      if (!update) return undefined;
      const { rank, a, b } = update;
      return { rank, a, b: b.subarray(first * rank, (first + count) * rank) };
    });
  return layers.map((sites) => ({
    qkv: at(sites.qkv),
    attentionOutput: at(sites.attentionOutput),
    up: at(sites.up),
    down: at(sites.down),
  }));
}

/** The largest rank among updates. */
export function largestRank(layers: readonly LayerUpdates[]): number {
  let rank = 0;
  for (const layer of layers) {
    for (const kind of SITE_KINDS) for (const update of layer[kind]) rank = Math.max(rank, update?.rank ?? 0);
  }
  return rank;
}
