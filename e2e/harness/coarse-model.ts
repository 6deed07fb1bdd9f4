import type { TinyModel } from '../../src/model/testing/tiny-model.ts';

/** The same model with each weight rounded to the 11 bits of a half: what kernels of another precision make of it. */
export function coarseModel({ config, checkpoint }: TinyModel): TinyModel {
  return {
    config,
    checkpoint: {
      name: `${checkpoint.name}, coarse`,
      tensors: checkpoint.tensors,
      async read(...range) {
        const bytes = (await checkpoint.read(...range)).slice();
        const words = new Uint32Array(bytes.buffer);
        for (let at = 0; at < words.length; at++) words[at] = (words[at]! + 0x1000) & ~0x1fff;
        return bytes;
      },
    },
  };
}
