import { type AttentionChoice, attentionName } from './attention-choice.ts';
import { tuneAttention } from './attention-tuner.ts';
import { choiceName } from './choice-name.ts';
import { DeviceWatch, TrialLost } from './device-watch.ts';
import type { KernelChoices } from './kernel-choices.ts';
import { type KernelNeeds, type ProductNeed, productKey } from './kernel-needs.ts';
import { type KernelOffers, kernelOffers } from './kernel-offers.ts';
import { defaultChoice, type LinearChoice, type LinearPartShape, leanChoice } from './linear-choice.ts';
import { isSoftware } from './linear-features.ts';
import { LinearTimer } from './linear-timer.ts';
import { linearUseName, linearUses } from './linear-trial.ts';
import type { LinearForm } from './linear-variant.ts';
import { KernelFailure, KernelLost, type KernelResult, otherCount, SelfTest } from './self-test.ts';
import type { TunerOptions } from './tuner-options.ts';
import { fastest, TunerBudget, within } from './tuner-pick.ts';
import { namesOf, worthTuning } from './worth-tuning.ts';

/**
 * How long self-test and tuner may take in all. What nothing can be served without is tried however long that takes; a
 * variant that something stands in for is tried at a later start where time runs out.
 */
const TOTAL_MS = 10_000;
const CAREFUL_MS = 600_000;
/** Of these, what the tuner may take beside the self-test, compiling included: a software adapter compiles slowly. */
const TUNE_MS = { software: 3_000, hardware: 5_000 } as const;
/** Weights of a product that is timed: on a GPU more than its caches hold. */
const TIMED_WEIGHTS = { software: 1 << 21, hardware: 1 << 27 } as const;
/** Where names tell attention's choice. */
const ATTENTION = 'attention';

/**
 * Chooses the kernels of a model's products on a device: tries each variant before it is used, times what may be faster
 * than the default, and knows what of the rest loading asked for.
 */
export class Tuner {
  readonly #device: GPUDevice;
  readonly #watch: DeviceWatch;
  readonly #needs: KernelNeeds;
  readonly #options: TunerOptions;
  readonly #test: SelfTest;
  readonly #offers: KernelOffers;
  readonly #chosen = new Map<string, LinearChoice>();
  #attention: AttentionChoice;
  /** Products asked for that `needs` doesn't name. */
  readonly #unforeseen = new Map<string, { part: LinearPartShape; form: LinearForm }>();
  /** Products that have their default by now, or what stands in for it. */
  readonly #settled = new Set<string>();
  #untested = 0;
  #done = 0;
  #total = 0;
  #ended = false;

  constructor(device: GPUDevice, needs: KernelNeeds, options: TunerOptions) {
    this.#device = device;
    this.#watch = new DeviceWatch(device);
    this.#needs = needs;
    this.#options = options;
    this.#offers = { ...kernelOffers(device, options.precision, options.forced), ...options.offers };
    const [first] = this.#offers.attention(needs.attention);
    this.#attention = { whole: first!, parts: first! };
    this.#test = new SelfTest(this.#watch, options.known?.results, () => this.#progress(1));
  }

  /** What became of each kernel that was tried. */
  get results(): readonly KernelResult[] {
    return this.#test.results;
  }

  /** Variants of defaults for which there was no time: they aren't used, and tried at a later start. */
  get untested(): number {
    return this.#untested;
  }

  /** The name of each product's choice, by productKey, and of attention's. */
  get names(): Record<string, string> {
    const products = [...this.#chosen].map(([key, choice]) => [key, choiceName(choice)] as const);
    return Object.fromEntries([...products, [ATTENTION, attentionName(this.#attention)]]);
  }

  /** What to load the model with. */
  get choices(): KernelChoices {
    return {
      precision: this.#options.precision,
      attention: this.#attention,
      linear: (part, form) => {
        const key = productKey(part, form);
        const chosen = this.#chosen.get(key);
        if (chosen) return chosen;
        this.#unforeseen.set(key, { part, form });
        return this.#offers.linear(part, form)[0]!;
      },
    };
  }

  /** Takes what is known, untested again. False where some of it can't be had any more: then nothing is taken. */
  restore(): boolean {
    const { known } = this.#options;
    if (!known) return false;
    const attention = this.#offeredAttention().find((one) => attentionName(one) === known.choices[ATTENTION]);
    if (!attention) return false;
    for (const { part, form } of this.#needs.products) {
      const key = productKey(part, form);
      const choice = this.#offered(part, form).find((one) => choiceName(one) === known.choices[key]);
      if (!choice) {
        this.#chosen.clear();
        return false;
      }
      this.#chosen.set(key, choice);
    }
    this.#attention = attention;
    return true;
  }

  /**
   * Tries all that the model needs, then times what may be faster. Rejects with KernelFailure where something is wrong
   * that nothing can stand in for, with KernelLost or TrialLost where the device is lost.
   */
  async run(): Promise<void> {
    const { products } = this.#needs;
    const offers = products.map(({ part, form }) => this.#offers.linear(part, form));
    const worth = this.#options.forced ? [] : worthTuning(products, this.#options.leastWeights);
    const forms = this.#offers.attention(this.#needs.attention);
    this.#total = forms.length + otherCount(this.#needs) + namesOf(products, offers, worth).size;
    this.#progress(0);
    const start = performance.now();
    // Whose fault a lost device is has to be found, however long that takes.
    const totalMs = this.#options.careful ? CAREFUL_MS : (this.#options.totalMs ?? TOTAL_MS);
    const total = new TunerBudget(totalMs, () => performance.now());
    const leans = products.map(({ part, form }, i) => ({ part, form, choice: leanChoice(offers[i]![0]!) }));
    if (this.#options.careful) await this.#test.tryOthers(this.#needs, forms[0]!, true);
    else await this.#tryTogether(leans);
    for (const { part, form, choice } of leans) {
      this.#options.signal?.throwIfAborted();
      this.#chosen.set(productKey(part, form), await this.#sound(part, form, choice));
    }
    const wholes = leans.map(({ part, form, choice }, i) => ({ part, form, lean: choice, choice: offers[i]![0]! }));
    await within(this.#tryWholes(wholes, total), total.leftMs);
    const left = wholes.filter(({ part, form }) => !this.#settled.has(productKey(part, form)));
    this.#untested = left.length === 0 ? 0 : Math.max(1, this.#untriedOf(left).size);
    const kind = isSoftware(this.#device.adapterInfo) ? 'software' : 'hardware';
    const tuneMs = Math.min(this.#options.tuneMs ?? TUNE_MS[kind], total.leftMs);
    const budget = new TunerBudget(tuneMs, () => performance.now());
    budget.learn(this.#test.results.length, performance.now() - start);
    if (worth.length > 0 && this.#untested === 0) {
      this.#attention = await tuneAttention(this.#watch, this.#test, this.#needs.attention, forms, budget);
    }
    for (const need of this.#untested === 0 ? worth : []) {
      this.#options.signal?.throwIfAborted();
      if (!(await this.#tune(need, budget, TIMED_WEIGHTS[kind]))) break;
    }
    this.#done = this.#total;
    this.#progress(0);
    this.#ended = true;
  }

  /** Tries what loading asked for and nothing foresaw. False: load again, with other choices. */
  async tryUnforeseen(): Promise<boolean> {
    let sound = true;
    for (const [key, { part, form }] of this.#unforeseen) {
      const first = this.#offers.linear(part, form)[0]!;
      const choice = await this.#sound(part, form, first);
      this.#chosen.set(key, choice);
      sound &&= choice === first;
    }
    this.#unforeseen.clear();
    return sound;
  }

  /** Puts defaults in the place of leaner choices, one after the other, as long as there is time. */
  async #tryWholes(
    wholes: readonly { part: LinearPartShape; form: LinearForm; lean: LinearChoice; choice: LinearChoice }[],
    total: TunerBudget,
  ): Promise<void> {
    for (const whole of wholes) {
      const { part, form, lean, choice } = whole;
      const key = productKey(part, form);
      // Where the plain path stands in by now, there is nothing more to have.
      if (this.#chosen.get(key) === lean) {
        if (total.leftMs === 0 && this.#untriedOf([whole]).size > 0) continue;
        this.#options.signal?.throwIfAborted();
        if (!this.#options.careful) await this.#test.compile(part.format, form, choice);
        const sound = await this.#sound(part, form, choice);
        if (this.#ended) return;
        this.#chosen.set(key, sound);
      }
      this.#settled.add(key);
    }
  }

  #untriedOf(wholes: readonly { part: LinearPartShape; form: LinearForm; choice: LinearChoice }[]): Set<string> {
    const names = wholes.flatMap(({ part, form, choice }) => linearUses(part.format, form, choice).map(linearUseName));
    const tried = new Set(this.results.map(({ name }) => name));
    return new Set(names.filter((name) => !tried.has(name)));
  }

  /** Compiles defaults and tries all but products at once; where the device is lost by that, nobody knows by what. */
  async #tryTogether(firsts: readonly { part: LinearPartShape; form: LinearForm; choice: LinearChoice }[]) {
    const work = [
      this.#test.tryOthers(this.#needs, this.#attention.whole, false),
      ...firsts.map(({ part, form, choice }) => this.#test.compile(part.format, form, choice)),
    ];
    // Whatever fails first, the rest ends before anything else begins.
    const ends = await Promise.allSettled(work);
    for (const end of ends) {
      if (end.status === 'rejected' && end.reason instanceof KernelLost) throw new TrialLost(end.reason.message);
      if (end.status === 'rejected') throw end.reason;
    }
  }

  /** `choice` where it passes, else the plain one. */
  async #sound(part: LinearPartShape, form: LinearForm, choice: LinearChoice): Promise<LinearChoice> {
    const why = await this.#test.tryChoice(part.format, form, choice);
    if (why === undefined) return choice;
    const plain = defaultChoice(part, form, false);
    const plainWhy = this.#options.forced ? why : await this.#test.tryChoice(part.format, form, plain);
    if (plainWhy === undefined) return plain;
    throw new KernelFailure(`this GPU computes products wrong, so nothing is served: ${plainWhy}`);
  }

  /** Times what may be faster for a product. False: there is no time left for another. */
  async #tune(need: ProductNeed, budget: TunerBudget, mostWeights: number): Promise<boolean> {
    const { part, form } = need;
    const key = productKey(part, form);
    const base = this.#chosen.get(key)!;
    const others = this.#offers.linear(part, form).filter((choice) => choiceName(choice) !== choiceName(base));
    if (others.length === 0) return true;
    const kernels = (choice: LinearChoice) => linearUses(part.format, form, choice).length;
    if (!budget.fits(kernels(base) + kernels(others[0]!))) return false;
    const timing = this.#timeOthers(need, base, others, budget, mostWeights);
    const chosen = await within(timing, budget.leftMs);
    if (chosen === undefined) return false;
    this.#chosen.set(key, chosen);
    return budget.leftMs > 0;
  }

  async #timeOthers(
    need: ProductNeed,
    base: LinearChoice,
    others: readonly LinearChoice[],
    budget: TunerBudget,
    mostWeights: number,
  ): Promise<LinearChoice> {
    const { part, form } = need;
    const timer = await LinearTimer.create(this.#watch, need, this.#needs.attention, mostWeights);
    const time = (choice: LinearChoice) => timer.time(choice).catch((error) => this.#blame(need, choice, base, error));
    try {
      const baseTimes = await time(base);
      const timed: { choice: LinearChoice; times: ReadonlyMap<number, number> }[] = [];
      for (const choice of others) {
        const count = linearUses(part.format, form, choice).length;
        if (!budget.fits(count)) break;
        const start = performance.now();
        if (!this.#options.careful) await this.#test.compile(part.format, form, choice);
        if ((await this.#test.tryChoice(part.format, form, choice)) !== undefined) continue;
        timed.push({ choice, times: await time(choice) });
        budget.learn(count, performance.now() - start);
      }
      const best = fastest(
        baseTimes,
        timed.map(({ times }) => times),
      );
      return best === undefined ? base : timed[best]!.choice;
    } finally {
      timer.close();
    }
  }

  /** A device that is lost while a choice is timed is lost by what that choice has of its own. */
  #blame({ part, form }: ProductNeed, choice: LinearChoice, base: LinearChoice, error: unknown): never {
    if (!(error instanceof TrialLost)) throw error;
    const namesOf = (one: LinearChoice) => linearUses(part.format, form, one).map(linearUseName);
    const shared = choice === base ? [] : namesOf(base);
    throw new KernelLost(
      namesOf(choice).filter((name) => !shared.includes(name)),
      error.message,
    );
  }

  #offeredAttention(): AttentionChoice[] {
    const forms = this.#offers.attention(this.#needs.attention);
    return forms.flatMap((whole) => forms.map((parts) => ({ whole, parts })));
  }

  /** What may be chosen for a product, with what stands in for it. */
  #offered(part: LinearPartShape, form: LinearForm): readonly LinearChoice[] {
    return [...this.#offers.linear(part, form), defaultChoice(part, form, false)];
  }

  #progress(more: number): void {
    if (this.#ended) return;
    this.#done = Math.min(this.#total, this.#done + more);
    this.#options.onProgress?.(this.#done, this.#total);
  }
}
