import { expect, test, vi } from 'vitest';
import { LateKernels } from './late-kernels.ts';
import { ShaderError } from './pipeline-cache.ts';

test('a kernel that does not compile keeps none of the others from it, and is told', async () => {
  const late = new LateKernels();
  const done: string[] = [];
  late.add(async () => void done.push('first'));
  // By two layers.
  for (let layer = 0; layer < 2; layer++) {
    late.add(async () => {
      throw new ShaderError('second', 'no room');
    });
  }
  late.add(async () => void done.push('third'));
  const failed = await late.compileAll();
  expect(done).toEqual(['first', 'third']);
  expect(failed.map(({ kernel, message }) => ({ kernel, message }))).toEqual([
    { kernel: 'second', message: 'kernel second: no room' },
  ]);
  expect(await late.compileAll()).toEqual([]);
});

test('whatever else fails is no kernel that others stand in for', async () => {
  const late = new LateKernels();
  late.add(async () => {
    throw new TypeError('a mistake');
  });
  await expect(late.compileAll()).rejects.toThrow(TypeError);
});

test('once it is ended nothing more is begun', async () => {
  const late = new LateKernels();
  let begun = 0;
  late.add(async () => {
    begun++;
    late.end();
  });
  late.add(async () => void begun++);
  await late.compileAll();
  expect(begun).toBe(1);
});

test('what is awaited comes first, and is told by a rejection where it does not compile', async () => {
  const late = new LateKernels();
  const done: string[] = [];
  late.add(async () => void done.push('replaceable'));
  late.addAwaited(async () => void done.push('awaited'));
  expect(await late.compileAll()).toEqual([]);
  expect(done).toEqual(['awaited', 'replaceable']);
  late.addAwaited(async () => {
    throw new ShaderError('draws', 'no room');
  });
  await expect(late.compileAll()).rejects.toThrow('kernel draws: no room');
});

test('what others stand in for waits while there is other work, but not for ever', async () => {
  vi.useFakeTimers();
  try {
    const late = new LateKernels();
    const done: string[] = [];
    late.addAwaited(async () => void done.push('awaited'));
    for (const name of ['first', 'second', 'third']) late.add(async () => void done.push(name));
    late.add(async () => void done.push('soon'), 'soon');
    let busy = true;
    const all = late.compileAll(() => busy);
    await vi.advanceTimersByTimeAsync(4_900);
    expect(done).toEqual(['awaited', 'soon']);
    await vi.advanceTimersByTimeAsync(200);
    expect(done).toEqual(['awaited', 'soon', 'first']);
    busy = false;
    await vi.advanceTimersByTimeAsync(50);
    expect(done).toEqual(['awaited', 'soon', 'first', 'second', 'third']);
    expect(await all).toEqual([]);
  } finally {
    vi.useRealTimers();
  }
});
