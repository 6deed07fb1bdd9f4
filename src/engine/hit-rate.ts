/** Prompts that the rate is over. */
const LAST_PROMPTS = 64;

/** Share of prompt tokens found in the prefix cache, over the prompts started last. */
export class HitRate {
  #prompts: { readonly tokens: number; readonly cached: number }[] = [];

  add(tokens: number, cached: number): void {
    this.#prompts.push({ tokens, cached });
    if (this.#prompts.length > LAST_PROMPTS) this.#prompts.shift();
  }

  /** In [0, 1]; undefined before the first prompt. */
  get rate(): number | undefined {
    const tokens = this.#prompts.reduce((sum, prompt) => sum + prompt.tokens, 0);
    return tokens === 0 ? undefined : this.#prompts.reduce((sum, prompt) => sum + prompt.cached, 0) / tokens;
  }
}
