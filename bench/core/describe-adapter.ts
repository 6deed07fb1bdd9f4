import { isSoftware } from '../../src/gpu/linear-features.ts';

/** An adapter's name, and whether it is a software one. */
export function describeAdapter({ info }: GPUAdapter): { readonly name: string; readonly software: boolean } {
  return {
    name: [info.vendor, info.architecture, info.description].filter(Boolean).join(' '),
    software: isSoftware(info),
  };
}
