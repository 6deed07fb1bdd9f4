/** Writes samples one after the other, each as it comes once those before it are complete. */
export class SampleWriter {
  readonly #write: (text: string) => void;
  readonly #samples: number;
  readonly #prompt: () => string;
  readonly #waiting: string[] = [];
  readonly #ended = new Set<number>();
  #current = 0;
  #begun = false;

  constructor(samples: number, prompt: () => string, write: (text: string) => void) {
    this.#samples = samples;
    this.#prompt = prompt;
    this.#write = write;
  }

  /** Text of a sample; the prompt goes in front of its first. */
  add(index: number, text: string): void {
    if (index === this.#current) {
      this.#begin();
      if (text !== '') this.#write(text);
    } else {
      this.#waiting[index] = (this.#waiting[index] ?? '') + text;
    }
  }

  end(index: number): void {
    this.#ended.add(index);
    while (this.#ended.has(this.#current)) {
      this.#begin();
      this.#write('\n');
      this.#current++;
      this.#begun = false;
      const next = this.#waiting[this.#current];
      if (next !== undefined) this.add(this.#current, next);
    }
  }

  #begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    if (this.#samples > 1) this.#write(`--- sample ${this.#current} ---\n`);
    this.#write(this.#prompt());
  }
}
