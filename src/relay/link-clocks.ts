/** The clocks of a session: one for reports and one for the stream, either of which ends it, and one of its leaving. */
export class LinkClocks {
  private lease: NodeJS.Timeout | undefined;
  private stream: NodeJS.Timeout | undefined;
  private leaving: NodeJS.Timeout | undefined;
  /** `performance.now()` when the node was heard last. */
  heardAt = performance.now();
  private readonly leaseMs: number;
  private readonly onEnd: (why: string) => void;

  constructor(leaseMs: number, onEnd: (why: string) => void) {
    this.leaseMs = leaseMs;
    this.onEnd = onEnd;
  }

  /** The node was heard. */
  renewLease(): void {
    this.heardAt = performance.now();
    clearTimeout(this.lease);
    this.lease = this.start('The lease ran out: the node fell silent.');
  }

  /** Its stream came or went. Reports alone don't keep a session: without the stream the node gets no command. */
  streamOpen(open: boolean): void {
    clearTimeout(this.stream);
    if (!open) this.stream = this.start('The lease ran out: the node did not open its stream again.');
  }

  /** It is to leave, and what runs there to be handed over. */
  after(ms: number, onDue: () => void): void {
    this.leaving = setTimeout(onDue, ms);
  }

  stop(): void {
    clearTimeout(this.leaving);
    clearTimeout(this.lease);
    clearTimeout(this.stream);
  }

  private start(why: string): NodeJS.Timeout {
    return setTimeout(() => this.onEnd(why), this.leaseMs);
  }
}
