import type { ComponentChildren } from 'preact';

/** A table that scrolls by itself where there is no room; focus on it lets keys scroll it. */
export function TableFrame({ label, children }: { readonly label: string; readonly children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: keys scroll it
    <section class="table-frame" aria-label={label} tabIndex={0}>
      {children}
    </section>
  );
}
