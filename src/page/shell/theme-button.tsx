import { nextTheme, theme } from './theme.ts';

const SHAPES = {
  system: <path d="M10 3.5a6.5 6.5 0 0 0 0 13z" fill="currentColor" stroke="none" />,
  light: <circle cx="10" cy="10" r="2.75" fill="currentColor" stroke="none" />,
  dark: <circle cx="10" cy="10" r="6.5" fill="currentColor" />,
} as const;

/** Goes from the system's theme to the light and the dark one. */
export function ThemeButton() {
  const name = `Theme: ${theme.value}`;
  return (
    <button type="button" class="plain icon" aria-label={name} title={name} onClick={nextTheme}>
      <svg width="20" height="20" viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="1.5" aria-hidden>
        <circle cx="10" cy="10" r="6.5" />
        {SHAPES[theme.value]}
      </svg>
    </button>
  );
}
