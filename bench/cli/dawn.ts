/** npm `webgpu`'s GPU. */
export async function openDawn(): Promise<GPU> {
  const name = 'webgpu';
  const dawn = (await import(/* @vite-ignore */ name)) as {
    create(options: string[]): GPU;
    globals: Record<string, unknown>;
  };
  Object.assign(globalThis, dawn.globals);
  return dawn.create([]);
}
