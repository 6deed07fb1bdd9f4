import { expect, test } from 'vitest';
import { AllocationError, BufferOwner } from './buffer-owner.ts';

/** A device that has room for `room` bytes. */
function fakeDevice(room: number) {
  const scopes: ({ message: string } | null)[] = [];
  let used = 0;
  return {
    limits: { maxBufferSize: 1000 },
    pushErrorScope: () => scopes.push(null),
    popErrorScope: async () => scopes.pop(),
    createBuffer({ size }: { size: number }) {
      used += size;
      if (used > room) scopes[scopes.length - 1] = { message: 'out of memory' };
      return {
        destroy() {
          used -= size;
        },
      };
    },
    used: () => used,
  };
}

const owner = (device: ReturnType<typeof fakeDevice>) => new BufferOwner(device as unknown as GPUDevice);

test('counts what lives, and frees it', async () => {
  const device = fakeDevice(1000);
  const buffers = owner(device);
  const first = await buffers.allocate('a', 100, 0);
  await buffers.allocate('b', 1, 0);
  expect([buffers.liveBytes, buffers.liveBuffers, device.used()]).toEqual([128, 2, 128]);
  buffers.free(first);
  buffers.free(first);
  expect([buffers.liveBytes, buffers.liveBuffers, device.used()]).toEqual([16, 1, 16]);
  buffers.close();
  expect([buffers.liveBytes, buffers.liveBuffers, device.used()]).toEqual([0, 0, 0]);
  await expect(buffers.allocate('late', 16, 0)).rejects.toThrow('late: its owner has freed everything');
  expect(device.used()).toBe(0);
});

test('a refusal is an error with the sizes, and leaves nothing behind', async () => {
  const device = fakeDevice(300);
  const buffers = owner(device);
  await buffers.allocate('weights', 256, 0);
  const refused = buffers.allocate('kv', 64, 0);
  await expect(refused).rejects.toBeInstanceOf(AllocationError);
  await expect(refused).rejects.toThrow('kv: no room for 64 bytes, with 256 bytes in 1 buffers: out of memory');
  expect([buffers.liveBytes, device.used()]).toEqual([256, 256]);
});

test('a buffer over the limit is not tried', async () => {
  const device = fakeDevice(5000);
  await expect(owner(device).allocate('kv', 1001, 0)).rejects.toThrow(
    "kv: 1008 bytes are over the device's limit of 1000",
  );
  expect(device.used()).toBe(0);
});
