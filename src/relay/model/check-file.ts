import { stat } from 'node:fs/promises';
import { ModelError } from './model-error.ts';

/** Throws ModelError where a path names no file: to open a pipe, or read a device, may never end. Rejects as stat does. */
export async function checkFile(path: string): Promise<void> {
  if (!(await stat(path)).isFile()) throw new ModelError(`${path} is no file`);
}
