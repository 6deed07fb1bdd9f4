import { type Dirent, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Nodes of one user on one machine whose browsers have a past. */
const MOST = 8;

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
        const lock = join(parent, `${number}.pid`);
        if (!lockFile(lock)) continue;
        const profile = new BrowserProfile(join(parent, String(number)), lock);
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
      rmSync(this.#lock, { force: true });
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

/** False: a process that lives has it. */
function lockFile(path: string): boolean {
  for (let turn = 0; turn < 2; turn++) {
    try {
      writeFileSync(path, String(process.pid), { flag: 'wx' });
      held.add(path);
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      const pid = Number(readFileSync(path, 'utf8'));
      if (pid === process.pid ? held.has(path) : lives(pid)) return false;
      rmSync(path, { force: true });
    }
  }
  return false;
}

/** One that can't be read was written by a process that ended just then. */
function lives(pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid < 1) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
