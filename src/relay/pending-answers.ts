import { Lie } from './lie.ts';

/** Commands of one kind that a node may owe an answer to; one that answers none gets no more. */
const MAX_UNANSWERED = 64;

/** A command, and what the node answers; undefined where its session ends first. */
export interface Asked<Answer> {
  readonly id: bigint;
  readonly answer: Promise<Answer | undefined>;
}

/** The commands of one kind that one session's node was given and has not answered, however long ago. */
export class PendingAnswers<Answer> {
  private readonly noun: string;
  private readonly unanswered = new Map<bigint, (answer: Answer | undefined) => void>();
  private lastId = 0n;

  /** `noun`: what one of the commands is, in the words of who lies about it. */
  constructor(noun: string) {
    this.noun = noun;
  }

  /** A new command. Undefined: the node owes too many. */
  ask(): Asked<Answer> | undefined {
    if (this.unanswered.size >= MAX_UNANSWERED) return undefined;
    const id = ++this.lastId;
    return { id, answer: new Promise((resolve) => this.unanswered.set(id, resolve)) };
  }

  /** Throws Lie for a command that was never given, or was answered before. */
  answer(id: bigint, answer: Answer): void {
    const settle = this.unanswered.get(id);
    if (!settle) throw new Lie(`an answer to no ${this.noun}`);
    this.unanswered.delete(id);
    settle(answer);
  }

  /** No answer will come. */
  clear(): void {
    for (const settle of this.unanswered.values()) settle(undefined);
    this.unanswered.clear();
  }
}
