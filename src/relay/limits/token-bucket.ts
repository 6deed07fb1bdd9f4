/** Lets `perSecond` through in the long run, and `capacity` at once. Times are milliseconds. */
export class TokenBucket {
  private level: number;
  private at: number;
  private readonly perSecond: number;
  private readonly capacity: number;

  constructor(perSecond: number, capacity: number, now: number) {
    this.perSecond = perSecond;
    this.capacity = capacity;
    this.level = capacity;
    this.at = now;
  }

  /** In how many milliseconds it lets `amount` through; 0: now. */
  waitMs(amount: number, now: number): number {
    this.fill(now);
    // What is more than ever fits comes through once it is full, and leaves a debt.
    const missing = Math.min(amount, this.capacity) - this.level;
    return missing > 0 ? Math.ceil((missing / this.perSecond) * 1000) : 0;
  }

  take(amount: number): void {
    this.level -= amount;
  }

  isFull(now: number): boolean {
    this.fill(now);
    return this.level >= this.capacity;
  }

  private fill(now: number): void {
    this.level = Math.min(this.capacity, this.level + ((now - this.at) / 1000) * this.perSecond);
    this.at = now;
  }
}
