import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { ModelError } from './model-error.ts';

/** A repository of the hub's, at a revision. */
export interface HubReference {
  readonly kind: 'hub';
  /** owner/name. */
  readonly repository: string;
  /** A branch, a tag or a commit. */
  readonly revision: string;
  /** Undefined: what a model folder has. */
  readonly file: string | undefined;
}

/** What `--model` names. Paths are absolute. */
export type ModelReference =
  | { readonly kind: 'folder'; readonly path: string }
  | { readonly kind: 'gguf'; readonly path: string }
  | HubReference;

const HUB = 'hf:';
const NAME = /^[A-Za-z0-9][\w.-]{0,95}$/;

/**
 * Reads `--model`: a folder, a .gguf file, or `hf:owner/name[@revision][/file]`; slashes in a revision are written %2F.
 * Throws ModelError where it is none of them, or nothing is there.
 */
export function readModelReference(text: string): ModelReference {
  if (text.startsWith(HUB)) return hubReference(text);
  const path = resolve(text);
  const stats = statSync(path, { throwIfNoEntry: false });
  if (!stats) throw new ModelError(`there is no model at ${path}`);
  if (stats.isDirectory()) return { kind: 'folder', path };
  if (!path.endsWith('.gguf')) {
    throw new ModelError(`${path} is neither a folder nor a .gguf file; hf:owner/name names a model of the hub's`);
  }
  return { kind: 'gguf', path };
}

function hubReference(text: string): HubReference {
  const [owner = '', rest = '', ...folders] = text.slice(HUB.length).split('/');
  const at = rest.indexOf('@');
  const name = at < 0 ? rest : rest.slice(0, at);
  let revision = 'main';
  try {
    if (at >= 0) revision = decodeURIComponent(rest.slice(at + 1));
  } catch {
    revision = '';
  }
  const file = folders.length === 0 ? undefined : folders.join('/');
  const isFile = file === undefined || /^(?:[\w-][\w .+-]*\/)*[\w-][\w .+-]*\.gguf$/.test(file);
  const isRevision = /^[\w][\w./+-]{0,200}$/.test(revision) && !/\.\.|\/\/|\/$/.test(revision);
  if (!NAME.test(owner) || !NAME.test(name) || !isRevision || !isFile) {
    throw new ModelError(
      `${JSON.stringify(text)} is no model of the hub's: write hf:owner/name, hf:owner/name@revision or hf:owner/name/file.gguf`,
    );
  }
  return { kind: 'hub', repository: `${owner}/${name}`, revision, file };
}
