import configText from '../../../models/stories260K/config.json?raw';
import weightsUrl from '../../../models/stories260K/model.safetensors?url';
import { bytesSource } from '../../checkpoint/byte-source.ts';
import type { Checkpoint } from '../../checkpoint/checkpoint.ts';
import { type ModelConfig, parseModelConfig } from '../../checkpoint/model-config.ts';
import { openSafetensors } from '../../checkpoint/safetensors.ts';

/** The bundled model's config. */
export function storiesConfig(): ModelConfig {
  return parseModelConfig(configText, 'config.json');
}

/** The bundled model's weights, from the dev server in a browser and from disk under Node. */
export async function storiesCheckpoint(): Promise<Checkpoint> {
  return openSafetensors(bytesSource('model.safetensors', await readBytes()));
}

async function readBytes(): Promise<Uint8Array> {
  if ('document' in globalThis || 'importScripts' in globalThis) {
    return new Uint8Array(await (await fetch(weightsUrl)).arrayBuffer());
  }
  // Names Vite can't follow keep Node out of the browser's bundle.
  const name = 'node:fs/promises';
  const files = (await import(/* @vite-ignore */ name)) as { readFile(file: URL): Promise<Uint8Array> };
  const path = '../../../models/stories260K/model.safetensors';
  return files.readFile(new URL(path, import.meta.url));
}
