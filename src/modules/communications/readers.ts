/** What is a reader's own: their language, and the hours in which nobody disturbs them. */
import { invalid } from '../../kernel/errors.ts';

/* Languages of templates. */

/** A tag of a language as browsers and devices name them, such as `pt-BR`. */
export const localePattern = '^[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3}$';

/** What there is in the requested language, else in its general form (`pt` for `pt-BR`), else nothing. */
export function inLanguage<T>(
  translations: Readonly<Record<string, T>> | null | undefined,
  locale: string | undefined,
): T | undefined {
  if (!translations || locale === undefined) return undefined;
  const byTag = new Map(
    Object.entries(translations).map(([tag, texts]) => [tag.toLowerCase(), texts]),
  );
  const parts = locale.toLowerCase().replaceAll('_', '-').split('-');
  for (let length = parts.length; length > 0; length -= 1) {
    const texts = byTag.get(parts.slice(0, length).join('-'));
    if (texts !== undefined) return texts;
  }
  return undefined;
}

/** Throws 400 for names that are no languages. */
export function requireLocales(translations: Readonly<Record<string, unknown>>): void {
  const tag = new RegExp(localePattern);
  for (const name of Object.keys(translations))
    if (!tag.test(name))
      throw invalid(`translations.${name.slice(0, 20)}`, 'locale', 'must be a language like pt-BR');
}

/* Hours in which nobody is disturbed, by the clock where the user is. */

export interface QuietHours {
  /** Minutes of the day; equal: never. An end before the start is on the next day. */
  readonly start: number;
  readonly end: number;
  /** A name of the time zone database. */
  readonly timezone: string;
}

const clock = /^([01]\d|2[0-3]):([0-5]\d)$/;

/** Minutes of the day of a time like `22:30`; nothing when it is none. */
export function minutesOf(text: string): number | undefined {
  const [, hours, minutes] = clock.exec(text) ?? [];
  return hours === undefined ? undefined : Number(hours) * 60 + Number(minutes);
}

export const clockOf = (minutes: number): string =>
  `${String(Math.floor(minutes / 60)).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`;

export function isTimezone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** Minutes of the day at that place. */
function localMinutes(at: Date, timezone: string): number {
  let format = formats.get(timezone);
  if (!format) {
    format = new Intl.DateTimeFormat('en-GB', {
      timeZone: timezone,
      hour: '2-digit',
      minute: '2-digit',
      hourCycle: 'h23',
    });
    if (formats.size > 1000) formats.clear();
    formats.set(timezone, format);
  }
  return minutesOf(format.format(at)) ?? 0;
}

const isQuiet = (minutes: number, { start, end }: QuietHours): boolean =>
  start <= end ? minutes >= start && minutes < end : minutes >= start || minutes < end;

/** When the quiet hours end in which `at` falls; nothing when it falls into none. Clocks that are changed meanwhile count. */
export function quietUntil(at: Date, hours: QuietHours): Date | undefined {
  if (!isQuiet(localMinutes(at, hours.timezone), hours)) return undefined;
  const whole = new Date(Math.floor(at.getTime() / 60_000) * 60_000);
  const left = (hours.end - localMinutes(whole, hours.timezone) + 1440) % 1440;
  // An hour may be left out or come twice on the way: from an hour before, the first minute that is not quiet.
  const from = whole.getTime() + Math.max(left - 61, 1) * 60_000;
  for (let step = 0; step < 240; step += 1) {
    const then = new Date(from + step * 60_000);
    if (!isQuiet(localMinutes(then, hours.timezone), hours)) return then;
  }
  return new Date(whole.getTime() + left * 60_000);
}
