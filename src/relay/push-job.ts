import { toBinary } from '@bufbuild/protobuf';
import { ConnectError } from '@connectrpc/connect';
import { type GenerateResponse, GenerateResponseSchema } from '../contract/gen/sglang_scheduler_pb.ts';
import { ChunkEncoder } from './encode-chunk.ts';
import { FrameBatch } from './frame-batch.ts';
import type { FrameSink } from './frame-sink.ts';
import { chunkOf, completeOf, type MessageForm } from './generate-messages.ts';
import { errorOf } from './generate-stream.ts';
import type { Job, ReadyChunk } from './job.ts';
import { StreamParts } from './stream-parts.ts';

/** Frames are gathered up to this much for one write, so that a reader that stalls is seen in time. */
const BATCH_BYTES = 16 * 1024;

/** Of all streams: each flush is done with it before the next begins. */
const batch = new FrameBatch();
/** Streams with something to write at the end of this turn: what one report brings is written together. */
let due: PushedJob[] = [];

function flushDue(): void {
  const all = due;
  due = [];
  for (const one of all) one.flush();
}

/**
 * Writes a job's stream as it comes, as frames: what `streamJob` yields, without a promise a message. Resolves at its end;
 * rejects with ConnectError where it failed.
 */
export function pushJob(job: Job, form: MessageForm, sink: FrameSink): Promise<void> {
  return new Promise((resolve, reject) => new PushedJob(job, form, sink, resolve, reject).start());
}

class PushedJob {
  private readonly job: Job;
  private readonly form: MessageForm;
  private readonly sink: FrameSink;
  private readonly resolve: () => void;
  private readonly reject: (error: unknown) => void;
  private readonly parts: StreamParts;
  private readonly plain: ChunkEncoder | undefined;
  private readonly chunks: ReadyChunk[] = [];
  private stopListening = () => {};
  private isDue = false;
  /** The client has not read what was written last. */
  private full = false;
  private over = false;

  constructor(job: Job, form: MessageForm, sink: FrameSink, resolve: () => void, reject: (error: unknown) => void) {
    this.job = job;
    this.form = form;
    this.sink = sink;
    this.resolve = resolve;
    this.reject = reject;
    this.parts = new StreamParts(job);
    this.plain = ChunkEncoder.takes(job) ? new ChunkEncoder(job) : undefined;
  }

  start(): void {
    this.stopListening = this.job.changed.listen(() => this.soon());
    this.flush();
  }

  private soon(): void {
    if (this.isDue || this.full || this.over) return;
    this.isDue = true;
    if (due.push(this) === 1) queueMicrotask(flushDue);
  }

  /** Writes what is ready. */
  flush(): void {
    this.isDue = false;
    try {
      while (!this.full && !this.over && this.pass()) {
        // As long as there is something.
      }
    } catch (error) {
      batch.clear();
      this.end(() => this.reject(error));
    }
  }

  /** Writes one batch at most; false where nothing was ready. */
  private pass(): boolean {
    const { job, parts, form } = this;
    while (batch.bytes < BATCH_BYTES) {
      const part = parts.next();
      if (!part) break;
      if (part.case === 'chunk') {
        this.chunks.push(part.chunk);
        job.messages++;
        if (this.plain) this.plain.encode(part.chunk, batch);
        else add(chunkOf(job, part.chunk, form));
      } else if (part.case === 'complete') {
        job.messages++;
        add(completeOf(job, part.sample, form));
      } else {
        const { error } = part.case === 'failed' ? part : { error: undefined };
        if (error && job.messages > 0) add(errorOf(job, error));
        this.write();
        this.end(() => (error ? this.reject(new ConnectError(error.message, error.code)) : this.resolve()));
        return false;
      }
    }
    return this.write();
  }

  private write(): boolean {
    if (batch.bytes === 0) return false;
    if (this.sink.write(batch.take())) this.wrote();
    else this.awaitDrain();
    return true;
  }

  private awaitDrain(): void {
    this.full = true;
    this.sink
      .drained()
      .then((ok) => {
        this.full = false;
        if (!ok) {
          this.end(this.resolve);
          return;
        }
        this.wrote();
        this.flush();
      })
      .catch((error: unknown) => this.end(() => this.reject(error)));
  }

  /** What was written gives the node further credit. */
  private wrote(): void {
    for (const chunk of this.chunks) this.job.wrote(chunk);
    this.chunks.length = 0;
  }

  private end(settle: () => void): void {
    if (this.over) return;
    this.over = true;
    this.stopListening();
    settle();
  }
}

function add(message: GenerateResponse): void {
  batch.add(toBinary(GenerateResponseSchema, message));
}
