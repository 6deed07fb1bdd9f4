import { expect, test } from 'vitest';
import { CheckedSource } from '../checkpoint/checked-source.ts';
import { PIECE_BYTES, sha256Hex } from '../checkpoint/manifest.ts';
import { parseModelConfig } from '../checkpoint/model-config.ts';
import { openSafetensors } from '../checkpoint/safetensors.ts';
import { writeSafetensors } from '../checkpoint/testing/write-safetensors.ts';
import type { Quantisation } from '../gpu/quantise.ts';
import { loadDecoder } from '../model/load-decoder.ts';
import { newTestDevice } from '../testing/device.ts';

const inBrowser = 'document' in globalThis;

const VOCABULARY = 32_768;
const HIDDEN = 512;
const LARGEST_BYTES = VOCABULARY * HIDDEN * 2;
const CONFIG = {
  architectures: ['LlamaForCausalLM'],
  model_type: 'llama',
  vocab_size: VOCABULARY,
  max_position_embeddings: 64,
  hidden_size: HIDDEN,
  intermediate_size: 64,
  num_hidden_layers: 1,
  num_attention_heads: 8,
  num_key_value_heads: 2,
  rms_norm_eps: 1e-5,
  tie_word_embeddings: true,
};

/** The header of a safetensors file of halves; its data follows. */
function header(): { bytes: Uint8Array; size: number } {
  const kv = (HIDDEN / 8) * 2;
  const layer = 'model.layers.0';
  const shapes: Record<string, number[]> = {
    'model.embed_tokens.weight': [VOCABULARY, HIDDEN],
    [`${layer}.input_layernorm.weight`]: [HIDDEN],
    [`${layer}.self_attn.q_proj.weight`]: [HIDDEN, HIDDEN],
    [`${layer}.self_attn.k_proj.weight`]: [kv, HIDDEN],
    [`${layer}.self_attn.v_proj.weight`]: [kv, HIDDEN],
    [`${layer}.self_attn.o_proj.weight`]: [HIDDEN, HIDDEN],
    [`${layer}.post_attention_layernorm.weight`]: [HIDDEN],
    [`${layer}.mlp.gate_proj.weight`]: [64, HIDDEN],
    [`${layer}.mlp.up_proj.weight`]: [64, HIDDEN],
    [`${layer}.mlp.down_proj.weight`]: [HIDDEN, 64],
    'model.norm.weight': [HIDDEN],
  };
  let at = 0;
  const entries = Object.entries(shapes).map(([name, shape]) => {
    const begin = at;
    at += shape.reduce((product, size) => product * size, 2);
    return [name, { dtype: 'F16', shape, data_offsets: [begin, at] }] as const;
  });
  const bytes = writeSafetensors(Object.fromEntries(entries));
  return { bytes, size: bytes.length + at };
}

// A browser tells no bytes of buffers.
test.skipIf(inBrowser).each([undefined, 'q8', 'q4'] as const)(
  'a model as quantised as %s loads with buffers of less than twice its largest tensor',
  async (quantisation: Quantisation | undefined) => {
    const name = '../testing/buffer-memory.node.ts';
    const { bufferBytes } = (await import(/* @vite-ignore */ name)) as { bufferBytes(garbage: boolean): number };
    const { bytes: head, size } = header();
    // Its weights are zeros, which need no room.
    const stretch = (offset: number, length: number) => {
      const bytes = new Uint8Array(length);
      if (offset < head.length) bytes.set(head.subarray(offset, offset + length));
      return bytes;
    };
    const zeros = await sha256Hex(new Uint8Array(PIECE_BYTES));
    const pieces = Array.from({ length: Math.ceil(size / PIECE_BYTES) }, () => zeros);
    for (const i of [0, pieces.length - 1]) {
      pieces[i] = await sha256Hex(stretch(i * PIECE_BYTES, Math.min(PIECE_BYTES, size - i * PIECE_BYTES)));
    }
    const device = await newTestDevice();
    const before = bufferBytes(false);
    let most = 0;
    // What has become garbage since the last look counts as held: the true peak is no higher.
    const look = (garbage: boolean) => {
      most = Math.max(most, bufferBytes(true) - before);
      if (!garbage) bufferBytes(false);
    };
    const file = { name: 'model.safetensors', size, sha256: '', pieces };
    const source = new CheckedSource(file, PIECE_BYTES, 'memory', async function* (offset, length) {
      for (let at = 0; at < length; at += 1 << 16) {
        yield stretch(offset + at, Math.min(1 << 16, length - at));
        if (at % PIECE_BYTES === 0) look(false);
      }
    });
    const write = device.queue.writeBuffer.bind(device.queue);
    device.queue.writeBuffer = (...args: Parameters<GPUQueue['writeBuffer']>) => {
      look(true);
      write(...args);
    };
    const runner = await loadDecoder(
      device,
      await openSafetensors(source),
      parseModelConfig(JSON.stringify(CONFIG), 'config.json'),
      { kvBlocks: 4, maxRows: 8, maxSequences: 1, ...(quantisation ? { quantisation } : {}) },
    );
    runner.destroy();
    device.destroy();
    // Below it nothing would have been counted.
    expect(most).toBeGreaterThan(8 << 20);
    expect(most).toBeLessThan(2 * LARGEST_BYTES);
  },
  120_000,
);
