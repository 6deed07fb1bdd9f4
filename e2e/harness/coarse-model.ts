import type { TinyModel } from '../../src/model/testing/tiny-model.ts';

/** The same model with each weight rounded to so many bits: 11, a half's, is what kernels of another precision make of it. */
export function coarseModel(model: TinyModel, bits = 11): TinyModel {
  const dropped = 24 - bits;
  return withWeights(model, `${bits} bits`, (word) => ((word + 2 ** (dropped - 1)) >>> dropped) << dropped);
}

/** The same model with the last bit of each weight flipped: as far off as sums in another order are. */
export function reorderedModel(model: TinyModel): TinyModel {
  return withWeights(model, 'reordered', (word) => word ^ 1);
}

function withWeights({ config, checkpoint }: TinyModel, how: string, change: (word: number) => number): TinyModel {
  return {
    config,
    checkpoint: {
      name: `${checkpoint.name}, ${how}`,
      tensors: checkpoint.tensors,
      async read(...range) {
        const bytes = (await checkpoint.read(...range)).slice();
        const words = new Uint32Array(bytes.buffer);
        for (let at = 0; at < words.length; at++) words[at] = change(words[at]!);
        return bytes;
      },
    },
  };
}
