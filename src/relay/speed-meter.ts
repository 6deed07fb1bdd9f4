/** Tokens after which one counts half. */
const HALF_LIFE_TOKENS = 256;
/** Fewer say nothing. */
const LEAST_TOKENS = 8;

/** How fast a node makes one sample's tokens, as they come to the relay: whatever it says of itself. */
export class SpeedMeter {
  private tokens = 0;
  private seconds = 0;

  /** `count` tokens of a sample came `ms` after the one before, or after it could go on. */
  add(count: number, ms: number): void {
    const kept = 0.5 ** (count / HALF_LIFE_TOKENS);
    this.tokens = this.tokens * kept + count;
    this.seconds = this.seconds * kept + ms / 1000;
  }

  /** Undefined where too few came. */
  get tokensPerSecond(): number | undefined {
    return this.tokens < LEAST_TOKENS ? undefined : this.tokens / Math.max(this.seconds, 1e-3);
  }
}
