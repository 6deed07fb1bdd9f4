import type { TextPart } from '../checkpoint/text-part.ts';
import type { Gpu } from '../gpu/gpu.ts';
import { LowRankSlots, shrunkNumbers } from '../gpu/low-rank-slots.ts';
import { tiledNumbers } from '../gpu/low-rank-update.ts';
import { rowWords } from '../gpu/row-words.ts';
import { type AdapterSite, type LayerSites, SITE_KINDS } from './adapter-sites.ts';
import type { DecoderLayer } from './decoder-layer.ts';
import type { DecoderLayerWeights } from './decoder-weights.ts';
import { type AdapterFiles, largestRank, readAdapter } from './read-adapter.ts';
import type { AdapterTraits } from './runner.ts';
import { isIndex, StepError } from './step-error.ts';

/** Where adapters may come in, of all layers of a model, and how many there may be of which rank. */
export interface AdapterRoom {
  readonly sites: readonly LayerSites[];
  readonly most: number;
  readonly maxRank: number;
  /** Whose names modules have; see readPeftAdapter. */
  readonly textPart?: TextPart | undefined;
}

type LayerSlots = Readonly<Record<(typeof SITE_KINDS)[number], LowRankSlots | undefined>>;

/** The adapters of a decoder's layers. Nothing is compiled or allocated for them before the first one comes. */
export class DecoderAdapters {
  readonly #gpu: Gpu;
  readonly #weights: readonly DecoderLayerWeights[];
  readonly #layers: readonly DecoderLayer[];
  readonly #room: AdapterRoom;
  readonly #maxRows: number;
  #slots: Promise<readonly LayerSlots[]> | undefined;

  /** `weights` and `layers` are those of all layers. */
  constructor(
    gpu: Gpu,
    weights: readonly DecoderLayerWeights[],
    layers: readonly DecoderLayer[],
    { adapters, maxRows }: { readonly adapters: AdapterRoom; readonly maxRows: number },
  ) {
    this.#gpu = gpu;
    this.#weights = weights;
    this.#layers = layers;
    this.#room = adapters;
    this.#maxRows = maxRows;
  }

  /** See Runner. */
  async load(slot: number, files: AdapterFiles): Promise<AdapterTraits> {
    const { sites, most, maxRank, textPart } = this.#room;
    if (!isIndex(slot, most)) {
      throw new StepError(`adapter slot ${slot} is not below ${most}`);
    }
    const updates = await readAdapter(files, sites, maxRank, textPart);
    this.#slots ??= this.#prepare().catch((error) => {
      this.#slots = undefined;
      throw error;
    });
    const layers = await this.#slots;
    for (const [i, layer] of layers.entries()) {
      for (const kind of SITE_KINDS) layer[kind]?.write(slot, updates[i]![kind]);
      // Steps get their turns, and the queue needn't hold a whole adapter.
      await this.#gpu.device.queue.onSubmittedWorkDone();
    }
    return { rank: largestRank(updates) };
  }

  /** Slots of all layers, and kernels that go by them. Rejects with AllocationError, with nothing kept, or ShaderError. */
  async #prepare(): Promise<readonly LayerSlots[]> {
    const { buffers } = this.#gpu;
    const made: GPUBuffer[] = [];
    try {
      const slots = await this.#allocateSlots(made);
      const scratch = await this.#allocateScratch(slots, made);
      await Promise.all(
        this.#layers.map((layer, i) => {
          const { qkv, attentionOutput, up, down } = slots[i]!;
          const site = (own: LowRankSlots | undefined) => own && { slots: own, ...scratch };
          return layer.adapt({
            qkv: site(qkv),
            attentionOutput: site(attentionOutput),
            up: site(up),
            down: site(down),
          });
        }),
      );
      // Variants that others stand in for are there already, and only put in their place.
      await this.#gpu.compileLate();
      return slots;
    } catch (error) {
      for (const buffer of made) buffers.free(buffer);
      throw error;
    }
  }

  /** One layer after the other: what doesn't fit is found before much is taken. */
  async #allocateSlots(made: GPUBuffer[]): Promise<readonly LayerSlots[]> {
    const { sites, most, maxRank } = this.#room;
    const all: LayerSlots[] = [];
    for (const [i, layer] of sites.entries()) {
      const { paired } = this.#weights[i]!.qkv;
      const create = async (site: AdapterSite | undefined) => {
        if (!site) return undefined;
        const { label, columns, modules } = site;
        const outputs = modules.map(({ count }) => count);
        const half = paired ? site.half : undefined;
        const slots = await LowRankSlots.create(this.#gpu, { label, columns, outputs, maxRank, slots: most, half });
        made.push(slots.a, slots.b, slots.counts);
        return slots;
      };
      all.push({
        qkv: await create(layer.qkv),
        attentionOutput: await create(layer.attentionOutput),
        up: await create(layer.up),
        down: await create(layer.down),
      });
    }
    return all;
  }

  async #allocateScratch(slots: readonly LayerSlots[], made: GPUBuffer[]) {
    const rows = this.#maxRows;
    const allocate = async (label: string, numbers: readonly number[]) => {
      const most = Math.max(0, ...numbers);
      if (most === 0) return undefined;
      const buffer = await this.#gpu.storage(label, rows * rowWords(most) * 16);
      made.push(buffer);
      return buffer;
    };
    const matrices = this.#weights.flatMap(({ qkv, feedForward }) =>
      feedForward.kind === 'dense' ? [qkv, feedForward.inner] : [qkv],
    );
    const shapes = slots.flatMap((layer) => SITE_KINDS.flatMap((kind) => layer[kind]?.shape ?? []));
    return {
      shrunk: (await allocate('shrunk rows of adapters', shapes.map(shrunkNumbers)))!,
      tiles: await allocate(
        'tiles of adapted products',
        matrices.map((matrix) => (matrix.paired ? tiledNumbers(matrix) : 0)),
      ),
    };
  }
}
