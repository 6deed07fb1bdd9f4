import type { ServedModel } from '../served-model.ts';

/** The model that a relay serves just now: the one of its start, or one of the same form whose weights came later. */
export class CurrentModel {
  private model: ServedModel;
  private places: readonly string[];

  /** `bases`: URLs where nodes find its files beside the relay. */
  constructor(model: ServedModel, bases: readonly string[] = []) {
    this.model = model;
    this.places = bases;
  }

  get now(): ServedModel {
    return this.model;
  }

  get bases(): readonly string[] {
    return this.places;
  }

  /** Of another digest: nobody says that its files are at the URLs of the one before. */
  replace(model: ServedModel): void {
    if (model.digest !== this.model.digest) this.places = [];
    this.model = model;
  }
}
