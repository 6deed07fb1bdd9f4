import type { Checkpoint, TensorInfo } from '../../checkpoint/checkpoint.ts';
import type { ModelConfig } from '../../checkpoint/model-config.ts';
import { type LowRankUpdate, readPeftAdapter } from '../../checkpoint/peft-adapter.ts';
import { parsePeftConfig } from '../../checkpoint/peft-config.ts';
import { openSafetensors } from '../../checkpoint/safetensors.ts';
import { quantShape, quantValues } from '../../gpu/quant-format.ts';
import { QUANTISED_FORMATS, type Quantisation, quantise } from '../../gpu/quantise.ts';
import { adapterSites, SITE_KINDS } from '../adapter-sites.ts';
import type { AdapterFiles } from '../read-adapter.ts';

/**
 * F32 weights with an adapter's B · A added to them, in float64; `quantisation`: to what matrices are once they are
 * quantised. `transposed`: the file holds adapted matrices as [inputs, outputs].
 */
export async function mergedCheckpoint(
  checkpoint: Checkpoint,
  config: ModelConfig,
  adapter: AdapterFiles,
  { quantisation, transposed = false }: { quantisation?: Quantisation | undefined; transposed?: boolean } = {},
): Promise<Checkpoint> {
  const modules = adapterSites(config).flatMap((sites) => SITE_KINDS.flatMap((kind) => sites[kind]?.modules ?? []));
  const parsed = parsePeftConfig(adapter.config, 'adapter_config.json');
  const updates = await readPeftAdapter(parsed, await openSafetensors(adapter.weights), modules, 1_000);
  const contents = new Map<string, Uint8Array>();
  for (const [name, tensor] of checkpoint.tensors) {
    const values = new Float32Array((await checkpoint.read(tensor)).slice().buffer);
    if (quantisation) requantise(values, tensor, quantisation);
    const update = updates.get(name.replace(/\.weight$/, ''));
    if (update) addUpdate(values, update, transposed);
    contents.set(name, new Uint8Array(values.buffer));
  }
  return {
    name: `${checkpoint.name}, merged`,
    tensors: checkpoint.tensors,
    async read(tensor, from = 0, length = tensor.byteLength - from) {
      return contents.get(tensor.name)!.subarray(from, from + length);
    },
  };
}

function addUpdate(values: Float32Array, { rank, a, b }: LowRankUpdate, transposed: boolean): void {
  const inputs = a.length / rank;
  const outputs = b.length / rank;
  for (let i = 0; i < outputs; i++) {
    for (let k = 0; k < inputs; k++) {
      let sum = 0;
      for (let j = 0; j < rank; j++) sum += b[i * rank + j]! * a[j * inputs + k]!;
      values[transposed ? k * outputs + i : i * inputs + k]! += sum;
    }
  }
}

function requantise(values: Float32Array, { shape }: TensorInfo, quantisation: Quantisation): void {
  if (shape.length < 2 || shape.at(-1)! % 32 !== 0) return;
  values.set(quantValues(quantise(values, quantisation), quantShape(QUANTISED_FORMATS[quantisation]).block));
}
