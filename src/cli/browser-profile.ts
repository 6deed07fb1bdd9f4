import { type Dirent, linkSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Nodes of one user on one machine whose browsers have a past. */
const MOST = 8;
/** Tries at one profile, where others take it and give it back at the same time. */
const TURNS = 4;

/** Locks of this process. Another file with its number is of one before it: in a container each start may have the same. */
const held = new Set<string>();

/**
 * What stays of a profile, as Chromium names it: the page's store of models (OPFS), its database, how much they may hold,
 * the user's limits and theme, and what was compiled. No history, no cookie, no token of a tab: they go.
 */
const KEPT = [
  ...['Default/File System', 'Default/IndexedDB', 'Default/WebStorage', 'Default/Local Storage'],
  ...['Default/Code Cache', 'Default/DawnWebGPUCache', 'Default/GPUCache'],
];

/**
 * The folder that a node's browser keeps its pages' models and self-test in, from one start to the next. One browser at a
 * time has it.
 */
export class BrowserProfile {
  readonly folder: string;
  readonly #lock: string;

  private constructor(folder: string, lock: string) {
    this.folder = folder;
    this.#lock = lock;
  }

  /** One that no other browser has, in `parent`; undefined where all are taken, or the disk takes none. */
  static take(parent: string): BrowserProfile | undefined {
    try {
      mkdirSync(parent, { recursive: true, mode: 0o700 });
      for (let number = 1; number <= MOST; number++) {
        const path = lock(parent, number);
        if (path === undefined) continue;
        const profile = new BrowserProfile(join(parent, String(number)), path);
        profile.#clean();
        return profile;
      }
    } catch {
      // A node without a past serves as well, later.
    }
    return undefined;
  }

  /** Its browser has ended. */
  release(): void {
    try {
      this.#clean();
    } catch {
      // What the ending browser still holds is removed before the next one starts.
    }
    held.delete(this.#lock);
    try {
      writeFileSync(this.#lock, '');
    } catch {
      // It is taken back when this process has ended.
    }
  }

  /** Forgets all of it: a browser doesn't start with it. */
  reset(): void {
    rmSync(this.folder, { recursive: true, force: true });
    mkdirSync(this.folder, { mode: 0o700 });
  }

  #clean(): void {
    mkdirSync(this.folder, { recursive: true, mode: 0o700 });
    for (const inside of ['', 'Default']) {
      const parent = join(this.folder, inside);
      for (const entry of entries(parent)) {
        const path = inside === '' ? entry.name : `${inside}/${entry.name}`;
        const keeps = entry.isDirectory() && KEPT.some((kept) => kept === path || kept.startsWith(`${path}/`));
        if (!keeps) rmSync(join(parent, entry.name), { recursive: true, force: true });
      }
    }
  }
}

function entries(folder: string): readonly Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    return [];
  }
}

/**
 * Takes a profile by a lock file; undefined: a process that lives has it. Each who takes it writes a file of the next generation, and
 * the highest one counts: of several that find the same dead one, one comes to have the next. None is written over, and none
 * removed before there are two higher ones, so that whoever looked before sees in the end that it came too late.
 */
function lock(parent: string, number: number): string | undefined {
  for (let turn = 0; turn < TURNS; turn++) {
    const newest = highestOf(parent, number);
    if (newest !== undefined && isHeld(lockPath(parent, number, newest))) return undefined;
    const generation = (newest ?? 0) + 1;
    const path = lockPath(parent, number, generation);
    if (!writeOnce(path)) continue;
    if (highestOf(parent, number) !== generation) {
      rmSync(path, { force: true });
      continue;
    }
    held.add(path);
    for (const old of generationsOf(parent, number)) {
      if (old < generation - 1) rmSync(lockPath(parent, number, old), { force: true });
    }
    return path;
  }
  return undefined;
}

function lockPath(parent: string, number: number, generation: number): string {
  return join(parent, `${number}.${generation}.pid`);
}

function generationsOf(parent: string, number: number): readonly number[] {
  return readdirSync(parent).flatMap((name) => {
    const [, profile, generation] = /^(\d+)\.(\d+)\.pid$/.exec(name) ?? [];
    return Number(profile) === number ? [Number(generation)] : [];
  });
}

function highestOf(parent: string, number: number): number | undefined {
  const all = generationsOf(parent, number);
  return all.length > 0 ? Math.max(...all) : undefined;
}

/** False where the file is there. It is never seen without its content: that would look as if its process had ended. */
function writeOnce(path: string): boolean {
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, String(process.pid));
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return false;
  } finally {
    rmSync(draft, { force: true });
  }
}

function isHeld(path: string): boolean {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    // Two have come since.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
  const pid = Number(text);
  return pid === process.pid ? held.has(path) : lives(pid);
}

/** None is the number of one that was given back. */
function lives(pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid < 1) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
