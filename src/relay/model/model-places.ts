import { isBase } from '../../checkpoint/model-about.ts';
import type { ServedModel } from '../served-model.ts';

/** In place of a URL: where the hub has the files of a hf: model, pinned to its commit. */
export const HUB = 'hub';

/** Where nodes get a model's files beside the relay. */
export interface ModelPlaces {
  /** URLs that a file's name goes behind. */
  readonly bases: readonly string[];
  /** Origins that a page must be allowed to ask. */
  readonly origins: readonly string[];
}

/**
 * What `--model-url` and `--model-cdn` say. Throws RangeError naming what is no URL, and where `hub` is said of a model that
 * isn't the hub's.
 */
export function modelPlaces(
  model: Pick<ServedModel, 'name' | 'hubUrl'>,
  urls: readonly string[],
  cdns: readonly string[],
): ModelPlaces {
  const bases = urls.map((text) => {
    if (text === HUB) {
      if (model.hubUrl === undefined) {
        throw new RangeError(`--model-url hub is for models of the hub, and ${model.name} is none: name a URL.`);
      }
      return model.hubUrl;
    }
    const base = text.endsWith('/') ? text : `${text}/`;
    if (!isBase(base)) {
      throw new RangeError(
        `--model-url ${text} is no URL of a folder: http or https, without user, query and fragment.`,
      );
    }
    return base;
  });
  const origins = cdns.map((text) => {
    if (!/^https?:\/\/(\*\.)?[\w.-]+(:\d+)?$/.test(text)) {
      throw new RangeError(`--model-cdn ${text} is no origin, such as https://cdn.example or https://*.cdn.example.`);
    }
    return text;
  });
  if (origins.length > 0 && bases.length === 0)
    throw new RangeError('--model-cdn is where --model-url redirects to: give both.');
  return { bases, origins: [...new Set([...bases.map((base) => new URL(base).origin), ...origins])] };
}
