/** What the user lets the page do so that it keeps working while nobody looks. */
export interface Background {
  /** The screen, and with it the computer, does not go to sleep while this tab is shown and serves. */
  readonly keepAwake: boolean;
  /** The tab plays what nobody hears while it serves. */
  readonly sound: boolean;
}

/** What was kept, as far as it is what a page keeps. */
export function readBackground(text: string | null): Background {
  let kept: Partial<Record<keyof Background, unknown>> = {};
  try {
    kept = (JSON.parse(text ?? '{}') as typeof kept | null) ?? {};
  } catch {
    // Of no page of this kind.
  }
  return { keepAwake: kept.keepAwake === true, sound: kept.sound === true };
}
