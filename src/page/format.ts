const COUNT = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
// Not hour12: false, whose midnight is 24:00.
const CLOCK = new Intl.DateTimeFormat('en', {
  ...{ hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' },
} as const);
const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'] as const;

/** 1234567 as "1,234,567". */
export function count(value: number): string {
  return COUNT.format(value);
}

/** 1234567 as "1.2 MB". */
export function bytes(value: number): string {
  let unit = 0;
  let scaled = value;
  while (scaled >= 999.5 && unit < UNITS.length - 1) {
    scaled /= 1000;
    unit++;
  }
  return `${scaled.toFixed(unit === 0 || scaled >= 99.95 ? 0 : 1)} ${UNITS[unit]}`;
}

/** 12345678 ms as "3 h 25 min": its two largest units. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** 0.256 as "26 %". */
export function percent(share: number): string {
  return `${(100 * share).toFixed(0)} %`;
}

/** Time of day as 17:04:05; `seconds` since 1970. */
export function timeOfDay(seconds: number): string {
  return CLOCK.format(seconds * 1_000);
}
