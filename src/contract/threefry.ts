const ROTATIONS = [13, 15, 26, 6, 17, 29, 16, 24] as const;

/**
 * Threefry-2x32-20 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): two u32 from a key and a
 * counter of two u32 each. shaders/threefry.wgsl is the same function.
 */
export function threefry(key: readonly [number, number], counter: readonly [number, number]): [number, number] {
  const keys = [key[0], key[1], 0x1bd11bda ^ key[0] ^ key[1]];
  let x = (counter[0] + key[0]) >>> 0;
  let y = (counter[1] + key[1]) >>> 0;
  for (let round = 0; round < 20; round++) {
    const turn = ROTATIONS[round % 8]!;
    x = (x + y) >>> 0;
    y = (((y << turn) | (y >>> (32 - turn))) ^ x) >>> 0;
    if (round % 4 === 3) {
      const injection = (round >> 2) + 1;
      x = (x + keys[injection % 3]!) >>> 0;
      y = (y + keys[(injection + 1) % 3]! + injection) >>> 0;
    }
  }
  return [x, y];
}
