import fc from 'fast-check';
import { expect, it } from 'vitest';
import { BlockPool } from './block-pool.ts';

it('never hands a block to two holders, and gets every one back', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 40 }),
      fc.array(fc.oneof(fc.record({ take: fc.nat(12) }), fc.record({ giveBack: fc.nat(30) })), { maxLength: 60 }),
      (size, acts) => {
        const pool = new BlockPool(size);
        const held: (readonly number[])[] = [];
        for (const act of acts) {
          const free = pool.free;
          if ('take' in act) {
            const blocks = pool.allocate(act.take);
            expect(blocks === undefined).toBe(act.take > free);
            if (blocks) held.push(blocks);
            expect(pool.free).toBe(free - (blocks?.length ?? 0));
          } else if (held.length > 0) {
            pool.release(held.splice(act.giveBack % held.length, 1)[0]!);
          }
          const all = held.flat();
          expect(new Set(all).size).toBe(all.length);
          expect(all.length + pool.free).toBe(size);
          expect(all.every((block) => block >= 0 && block < size)).toBe(true);
        }
        for (const blocks of held) pool.release(blocks);
        expect(pool.free).toBe(size);
      },
    ),
  );
});

it('refuses a block that is given back twice', () => {
  const pool = new BlockPool(2);
  const blocks = pool.allocate(1)!;
  pool.release(blocks);
  expect(() => pool.release(blocks)).toThrow(/given back but not taken/);
});
