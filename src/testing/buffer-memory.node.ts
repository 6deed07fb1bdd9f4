import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Bytes of all ArrayBuffers of this process; without `garbage` those that something holds. */
export function bufferBytes(garbage: boolean): number {
  if (!garbage) collectGarbage();
  return process.memoryUsage().arrayBuffers;
}
