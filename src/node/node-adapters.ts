import type { MessageInitShape } from '@bufbuild/protobuf';
import { bytesSource } from '../checkpoint/byte-source.ts';
import { sha256Hex } from '../checkpoint/manifest.ts';
import { FAILURE_CODES } from '../contract/failure-codes.ts';
import type { AdapterFile, LoadAdapter, NodeEventSchema, UnloadAdapter } from '../contract/gen/node_relay_pb.ts';
import { type LoraAdapters, LoraError } from '../engine/lora-adapters.ts';
import type { Ask } from './relay-access.ts';

type NodeEventInit = MessageInitShape<typeof NodeEventSchema>;

/** A file that takes longer comes no more: other commands wait behind it. */
const FETCH_MS = 600_000;

/** Reads a file of an adapter of the relay's, at `<digest>/<name>`. */
export type FetchAdapterFile = (path: string) => Promise<Uint8Array>;

/** What a session drives where a model takes LoRA adapters: they are loaded and unloaded one after the other, as the relay asks. */
export class NodeAdapters {
  readonly #lora: Pick<LoraAdapters, 'load' | 'unload' | 'list'>;
  readonly #fetchFile: FetchAdapterFile;
  readonly #report: (events: readonly NodeEventInit[]) => void;
  /** Still used when they were to be forgotten: they go before another is loaded, or with it. */
  readonly #owed = new Set<string>();
  #last: Promise<void> = Promise.resolve();
  #session = 0;

  constructor(
    lora: Pick<LoraAdapters, 'load' | 'unload' | 'list'>,
    fetchFile: FetchAdapterFile,
    report: (events: readonly NodeEventInit[]) => void,
  ) {
    this.#lora = lora;
    this.#fetchFile = fetchFile;
    this.#report = report;
  }

  /** Resolves once all that was asked for by now is done. */
  get settled(): Promise<void> {
    return this.#last;
  }

  load({ requestId, loraId: id, digest, files }: LoadAdapter): void {
    this.#next(requestId, async () => {
      for (const owed of this.#owed) {
        if (owed === id) await this.#unload(id);
        else await this.#unload(owed, 0).catch(() => {});
      }
      const read = (name: string) => this.#read(digest, name, files);
      const config = new TextDecoder().decode(await read('adapter_config.json'));
      const name = 'adapter_model.safetensors';
      await this.#lora.load({ id, config, weights: bytesSource(name, await read(name)) });
    });
  }

  unload({ requestId, loraId }: UnloadAdapter): void {
    this.#next(requestId, () => this.#unload(loraId));
  }

  /** A new session: its relay tells what is to be loaded, and what another had is of no use. */
  reset(): void {
    this.#session++;
    this.#last = this.#last.then(async () => {
      // One that is still used stays for now, and its slot with it.
      for (const { id } of this.#lora.list()) await this.#unload(id).catch(() => {});
    });
  }

  async #unload(id: string, patienceMs?: number): Promise<void> {
    try {
      await this.#lora.unload(id, patienceMs);
      this.#owed.delete(id);
    } catch (error) {
      if (error instanceof LoraError && error.code === 'unavailable') this.#owed.add(id);
      else this.#owed.delete(id);
      throw error;
    }
  }

  #next(requestId: bigint, act: () => Promise<void>): void {
    const session = this.#session;
    this.#last = this.#last.then(async () => {
      if (session !== this.#session) return;
      const value = await act().then(
        () => ({ requestId }),
        (error: Error) => failure(requestId, error),
      );
      if (session === this.#session) this.#report([{ event: { case: 'adapterDone', value } }]);
    });
  }

  async #read(digest: string, name: string, files: readonly AdapterFile[]): Promise<Uint8Array> {
    const file = files.find((one) => one.name === name);
    if (!file) throw new LoraError('invalid_argument', `the adapter has no ${name}`);
    const bytes = await this.#fetchFile(`${digest}/${name}`);
    if (BigInt(bytes.byteLength) === file.size && (await sha256Hex(bytes)) === file.sha256) return bytes;
    throw new LoraError('unavailable', `${name} came with another hash than the relay tells`);
  }
}

/** Does what a command says; gives what is to be told at once: that a node takes none. */
export function takeAdapterCommand(
  adapters: NodeAdapters | undefined,
  command: LoadAdapter | UnloadAdapter,
): readonly NodeEventInit[] {
  if (!adapters) return [refused(command)];
  if (command.$typeName === 'shoal.relay.v1.LoadAdapter') adapters.load(command);
  else adapters.unload(command);
  return [];
}

/** Files of the adapters of the relay at `relayUrl`. */
export function adapterFiles(relayUrl: string, ask: Ask, signal: AbortSignal): FetchAdapterFile {
  return async (path) => {
    const bounded = AbortSignal.any([signal, AbortSignal.timeout(FETCH_MS)]);
    const response = await ask(`${relayUrl}/model/adapters/${path}`, { signal: bounded });
    if (!response.ok) throw new Error(`an adapter's file came with status ${response.status}`);
    return new Uint8Array(await response.arrayBuffer());
  };
}

function refused({ requestId }: LoadAdapter | UnloadAdapter): NodeEventInit {
  const message = 'this node takes no LoRA adapters';
  return { event: { case: 'adapterDone', value: { requestId, code: FAILURE_CODES.unimplemented, message } } };
}

function failure(requestId: bigint, error: Error) {
  const code = error instanceof LoraError ? error.code : 'unavailable';
  return { requestId, code: FAILURE_CODES[code], message: error.message };
}
