import type { MessageInitShape } from '@bufbuild/protobuf';
import type { AdapterDone, NodeCommandSchema } from '../../contract/gen/node_relay_pb.ts';
import { type Asked, PendingAnswers } from '../pending-answers.ts';
import type { ServedAdapter } from './served-adapters.ts';

type Command = NonNullable<MessageInitShape<typeof NodeCommandSchema>['command']>;

/** Which adapters one session's node holds, as it has said. */
export class LinkAdapters {
  private readonly loaded = new Set<string>();
  /** What it was asked for last, by id: an answer may come after that has changed. */
  private readonly wanted = new Map<string, ServedAdapter>();
  private readonly pending = new PendingAnswers<AdapterDone>('adapter');
  private readonly send: (command: Command) => void;
  private readonly changed: () => void;
  private over = false;

  /** `changed` is called once it holds another. */
  constructor(send: (command: Command) => void, changed: () => void) {
    this.send = send;
    this.changed = changed;
  }

  /** Whether what needs that adapter may go there; undefined needs none. */
  holds(loraId: string | undefined): boolean {
    return loraId === undefined || this.loaded.has(loraId);
  }

  /** Undefined: its session ended first, or it owes too many answers. */
  async load(adapter: ServedAdapter): Promise<AdapterDone | undefined> {
    const asked = this.ask();
    if (!asked) return undefined;
    const { id: loraId, digest } = adapter;
    this.wanted.set(loraId, adapter);
    const files = adapter.files.map(({ name, size, sha256 }) => ({ name, size: BigInt(size), sha256 }));
    this.send({ case: 'loadAdapter', value: { requestId: asked.id, loraId, digest, files } });
    const done = await asked.answer;
    if (done?.code === 0 && this.wanted.get(loraId) === adapter) {
      this.loaded.add(loraId);
      this.changed();
    }
    return done;
  }

  /** Nothing that needs it goes there any more, whatever the node answers. */
  async unload(loraId: string): Promise<AdapterDone | undefined> {
    const asked = this.ask();
    this.wanted.delete(loraId);
    this.loaded.delete(loraId);
    if (!asked) return undefined;
    this.send({ case: 'unloadAdapter', value: { requestId: asked.id, loraId } });
    return asked.answer;
  }

  /** Throws Lie for an answer to nothing. */
  done(answer: AdapterDone): void {
    this.pending.answer(answer.requestId, answer);
  }

  /** The session is over: nothing is answered any more. */
  clear(): void {
    this.over = true;
    this.wanted.clear();
    this.loaded.clear();
    this.pending.clear();
  }

  private ask(): Asked<AdapterDone> | undefined {
    return this.over ? undefined : this.pending.ask();
  }
}
