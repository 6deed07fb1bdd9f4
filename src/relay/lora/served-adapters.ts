import { Code } from '@connectrpc/connect';
import type { Logger } from 'pino';
import { ContractError, invalid } from '../../contract/contract-error.ts';
import type { AdapterDone } from '../../contract/gen/node_relay_pb.ts';
import { refusalOf } from '../node-refusal.ts';
import type { SentFile } from '../send-file.ts';
import { type AdapterFolder, readAdapterFolder } from './adapter-folder.ts';
import type { LinkAdapters } from './link-adapters.ts';

/** How long nodes may take to load an adapter, or to be done with one. */
const ANSWER_MS = 120_000;
const MAX_NAME = 256;

/** An adapter that requests may name. */
export interface ServedAdapter extends AdapterFolder {
  /** What requests name it by; its name does too. */
  readonly id: string;
  readonly name: string;
  readonly path: string;
  readonly pinned: boolean;
}

export interface AdapterAsk {
  readonly name: string;
  readonly path: string;
  /** Empty: the name. */
  readonly id: string;
  readonly pinned: boolean;
  /** 0 or undefined: what its files say; else it has to be that. */
  readonly rank?: number;
}

interface AdapterLink {
  readonly rank: number;
  readonly serving: boolean;
  readonly adapters: LinkAdapters;
}

export interface AdapterRoom {
  /** Adapters at a time, at each node; 0: none are served. */
  readonly most: number;
  readonly maxRank: number;
}

/** The LoRA adapters of the fleet: each node that serves has them all, or is given no request that names what it lacks. */
export class ServedAdapters {
  readonly room: AdapterRoom;
  private readonly byId = new Map<string, ServedAdapter>();
  /** Being loaded or unloaded: names by id. */
  private readonly busy = new Map<string, string>();
  private readonly links: () => readonly AdapterLink[];
  private readonly log: Logger;

  constructor(room: AdapterRoom, links: () => readonly AdapterLink[], log: Logger) {
    this.room = room;
    this.links = links;
    this.log = log;
  }

  get all(): readonly ServedAdapter[] {
    return [...this.byId.values()];
  }

  /** Undefined: none of that id or name. */
  find(idOrName: string): ServedAdapter | undefined {
    return this.byId.get(idOrName) ?? this.all.find(({ name }) => name === idOrName);
  }

  /** A file that nodes ask for. */
  file(digest: string, name: string): SentFile | undefined {
    return this.all.find((adapter) => adapter.digest === digest)?.files.find((file) => file.name === name);
  }

  /**
   * Reads an adapter and has every node load it. Gives what to say of nodes that could not; rejects with ContractError where it
   * can't be served, or no node could load it.
   */
  async load(ask: AdapterAsk): Promise<string> {
    const { name, path, pinned, rank } = ask;
    const id = ask.id || name;
    const { most, maxRank } = this.room;
    if (most === 0) throw noAdapters();
    for (const [field, value] of [
      ['lora_name', name],
      ['lora_path', path],
      ['lora_id', id],
    ] as const) {
      if (value === '' || value.length > 4096) throw invalid(field, 'must be set, and not over 4096 characters.');
    }
    if (id.length > MAX_NAME || name.length > MAX_NAME)
      throw invalid('lora_name', `must be at most ${MAX_NAME} characters.`);
    const taken = [...this.busy].flat();
    if (this.find(id) || this.find(name) || taken.includes(id) || taken.includes(name)) {
      throw new ContractError(Code.AlreadyExists, 'lora_name is that of an adapter that is loaded.', 'lora_name');
    }
    if (new Set([...this.byId.keys(), ...this.busy.keys()]).size >= most) {
      throw new ContractError(Code.ResourceExhausted, `${most} adapters are loaded already: unload one first.`);
    }
    this.busy.set(id, name);
    try {
      const adapter = { id, name, path, pinned, ...(await readAdapterFolder(path, maxRank)) };
      if (rank && rank !== adapter.rank)
        throw invalid('rank', `must be 0 or the ${adapter.rank} of the adapter's files.`);
      this.byId.set(id, adapter);
      const { done, failed, late } = await this.everywhere((link) => link.adapters.load(adapter));
      if (done === 0 && failed.length > 0) {
        this.byId.delete(id);
        // One that was out of reach, or came meanwhile, may load it yet.
        for (const link of this.links()) void link.adapters.unload(id);
        throw failed[0];
      }
      this.log.info({ lora: name, digest: adapter.digest, nodes: done, failed: failed.length, late }, 'adapter loaded');
      if (done + late === 0) return 'No node is serving: those that come load it.';
      const asked = done + failed.length + late;
      return [
        ...(failed.length > 0 ? [`${failed.length} of ${asked} nodes could not load it: ${failed[0]!.message}`] : []),
        ...(late > 0 ? [`${late} of ${asked} nodes did not answer within ${ANSWER_MS / 1000} s.`] : []),
      ].join(' ');
    } finally {
      this.busy.delete(id);
    }
  }

  /** Requests that name it are refused from now on; nodes forget it once nothing runs with it. */
  async unload(idOrName: string): Promise<string> {
    if (this.room.most === 0) throw noAdapters();
    const adapter = this.find(idOrName);
    if (!adapter || this.busy.has(adapter.id)) {
      throw new ContractError(Code.NotFound, 'lora_name names no adapter that is loaded.', 'lora_name');
    }
    this.busy.set(adapter.id, adapter.name);
    this.byId.delete(adapter.id);
    try {
      const { failed, late } = await this.everywhere((link) => link.adapters.unload(adapter.id));
      this.log.info({ lora: adapter.name, failed: failed.length, late }, 'adapter unloaded');
      const why = failed[0]?.message ?? `no answer within ${ANSWER_MS / 1000} s`;
      return failed.length + late > 0 ? `${failed.length + late} nodes are not done with it: ${why}` : '';
    } finally {
      this.busy.delete(adapter.id);
    }
  }

  /** A node came: it loads what there is, one after the other, however many there are. */
  async opened(link: AdapterLink): Promise<void> {
    for (const adapter of this.all) {
      // Of what changed meanwhile it was told as all others were.
      if (this.byId.get(adapter.id) !== adapter) continue;
      const answer = await link.adapters.load(adapter);
      if (!answer || answer.code === 0) continue;
      const reason = refusalOf(answer.code, answer.message).message;
      this.log.warn({ rank: link.rank, lora: adapter.name, reason }, 'a node could not load an adapter');
    }
  }

  /** `late`: nodes that took longer than they may. One whose session ended first is not counted. */
  private async everywhere(ask: (link: AdapterLink) => Promise<AdapterDone | undefined>) {
    // Those out of reach are told once they are back, and not waited for.
    const asked = this.links().map((link) => ({ serving: link.serving, answer: ask(link) }));
    const awaited = asked.filter(({ serving }) => serving).map(({ answer }) => within(ANSWER_MS, answer));
    const answers = await Promise.all(awaited);
    const told = answers.flatMap((answer) => (answer === undefined || answer === 'late' ? [] : answer));
    const failed = told.filter(({ code }) => code !== 0).map(({ code, message }) => refusalOf(code, message));
    const late = answers.filter((answer) => answer === 'late').length;
    return { done: told.length - failed.length, failed, late };
  }
}

function noAdapters(): ContractError {
  return new ContractError(
    Code.Unimplemented,
    'LoRA adapters are not served: the relay was started without --max-loras.',
  );
}

async function within<T>(ms: number, work: Promise<T>): Promise<T | 'late'> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<'late'>((resolve) => {
    timer = setTimeout(() => resolve('late'), ms);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}
