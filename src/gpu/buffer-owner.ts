/** An allocation that the device refused; the message has label and sizes. */
export class AllocationError extends Error {
  override readonly name = 'AllocationError';
}

/** Creates buffers, counts them, and frees them all: every buffer has one owner. */
export class BufferOwner {
  readonly #device: GPUDevice;
  readonly #buffers = new Map<GPUBuffer, number>();
  #liveBytes = 0;
  #closed = false;

  constructor(device: GPUDevice) {
    this.#device = device;
  }

  /** Bytes of the buffers alive. */
  get liveBytes(): number {
    return this.#liveBytes;
  }

  /** How many buffers are alive. */
  get liveBuffers(): number {
    return this.#buffers.size;
  }

  /** A zeroed buffer of at least `bytes` bytes. Rejects with AllocationError where the device has no room for it. */
  async allocate(label: string, bytes: number, usage: GPUBufferUsageFlags): Promise<GPUBuffer> {
    // What is still loading when its owner goes must not leave a buffer behind.
    if (this.#closed) throw new AllocationError(`${label}: its owner has freed everything`);
    const size = Math.max(16, Math.ceil(bytes / 16) * 16);
    const { maxBufferSize } = this.#device.limits;
    if (size > maxBufferSize) {
      throw new AllocationError(`${label}: ${size} bytes are over the device's limit of ${maxBufferSize} a buffer`);
    }
    this.#device.pushErrorScope('validation');
    this.#device.pushErrorScope('out-of-memory');
    let buffer: GPUBuffer | undefined;
    let thrown: unknown;
    try {
      buffer = this.#device.createBuffer({ label, size, usage });
    } catch (error) {
      thrown = error;
    }
    if (buffer) this.#keep(buffer, size);
    const [memory, validation] = await Promise.all([this.#device.popErrorScope(), this.#device.popErrorScope()]);
    const refusal = memory ?? validation ?? thrown;
    if (!buffer || refusal) {
      if (buffer) this.free(buffer);
      const reason = (refusal as { message?: string } | undefined)?.message || 'out of memory';
      throw new AllocationError(
        `${label}: no room for ${size} bytes, with ${this.#liveBytes} bytes in ${this.liveBuffers} buffers: ${reason}`,
      );
    }
    return buffer;
  }

  free(buffer: GPUBuffer): void {
    const size = this.#buffers.get(buffer);
    if (size === undefined) return;
    this.#buffers.delete(buffer);
    this.#liveBytes -= size;
    buffer.destroy();
  }

  /** Frees all buffers, and allocates none from now on. */
  close(): void {
    this.#closed = true;
    for (const buffer of [...this.#buffers.keys()]) this.free(buffer);
  }

  #keep(buffer: GPUBuffer, size: number): void {
    this.#buffers.set(buffer, size);
    this.#liveBytes += size;
  }
}
