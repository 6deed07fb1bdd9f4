import { signal } from '@preact/signals';

/** The views of the page, by the fragment of their address; `#join` is the first of them, and joins (see link.ts). */
export const VIEWS = [
  { name: 'node', title: 'Node' },
  { name: 'fleet', title: 'Fleet' },
  { name: 'playground', title: 'Playground' },
] as const;

export type ViewName = (typeof VIEWS)[number]['name'];

export const route = signal<ViewName>(viewOf(location.hash));

addEventListener('hashchange', () => {
  route.value = viewOf(location.hash);
});

/** A view may have places of its own, named behind a slash: `#fleet/3`. */
export function viewOf(hash: string): ViewName {
  const [name] = hash.slice(1).split('/', 1);
  return VIEWS.find((view) => view.name === name)?.name ?? 'node';
}
