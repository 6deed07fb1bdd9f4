import { effect, signal } from '@preact/signals';

const KEY = 'shoal.theme';
const THEMES = ['system', 'light', 'dark'] as const;

export type Theme = (typeof THEMES)[number];

/** How the page is to look; kept in this browser. */
export const theme = signal<Theme>(THEMES.find((name) => name === localStorage.getItem(KEY)) ?? 'system');

export function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!;
  localStorage.setItem(KEY, theme.value);
}

effect(() => {
  const { dataset } = document.documentElement;
  if (theme.value === 'system') delete dataset.theme;
  else dataset.theme = theme.value;
});
