/** Moments and spans of time, in whole microseconds: the resolution of PostgreSQL. */
import { withoutEnd } from '../../kernel/text.ts';

const MICROS = 1_000_000n;
/** The years 1 to 9999, as in CEL. */
export const firstMoment = -62_135_596_800n * MICROS;
export const lastMoment = 253_402_300_800n * MICROS - 1n;
/** Ten thousand years, as in CEL. */
export const longestSpan = 315_576_000_000n * MICROS;

export const isMoment = (micros: bigint): boolean => micros >= firstMoment && micros <= lastMoment;
export const isSpan = (micros: bigint): boolean => micros >= -longestSpan && micros <= longestSpan;

const momentText =
  /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|z|[+-]\d\d:\d\d)$/;

/** RFC 3339; digits beyond microseconds are cut off. Nothing for what is no moment. */
export function readMoment(text: string): bigint | undefined {
  const [, year, month, day, hour, minute, second, fraction = '', zone = 'Z'] =
    momentText.exec(text) ?? [];
  if (year === undefined) return undefined;
  const whole = `${year}-${month}-${day}T${hour}:${minute}:${second}`;
  const at = Date.parse(`${whole}Z`);
  // What the calendar does not know is moved by JavaScript, not refused.
  if (Number.isNaN(at) || !new Date(at).toISOString().startsWith(whole)) return undefined;
  const offset = offsetOf(zone);
  if (offset === undefined) return undefined;
  const micros = BigInt(at) * 1000n + BigInt(fraction.padEnd(6, '0').slice(0, 6));
  const moment = micros - BigInt(offset) * 60n * MICROS;
  return isMoment(moment) ? moment : undefined;
}

/** Minutes east of Greenwich of `Z`, `UTC` or `+05:30`. */
export function offsetOf(zone: string): number | undefined {
  if (zone === '' || /^(z|utc)$/i.test(zone)) return 0;
  const [, sign, hours, minutes] = /^([+-]?)(\d\d):(\d\d)$/.exec(zone) ?? [];
  if (hours === undefined || Number(hours) > 23 || Number(minutes) > 59) return undefined;
  return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes));
}

const unitMicros: Readonly<Record<string, number>> = {
  h: 3_600_000_000,
  m: 60_000_000,
  s: 1_000_000,
  ms: 1_000,
  us: 1,
  µs: 1,
  ns: 0.001,
};
/** One part, at the place where the last one ended. */
const spanPart = /(\d{0,18})(?:\.(\d{0,18}))?(h|ms|m|s|us|µs|ns)/y;

function nanosOf(part: RegExpExecArray | null): bigint | undefined {
  const [, whole = '', fraction = '', unit = ''] = part ?? [];
  if (whole === '' && fraction === '') return undefined;
  const one = BigInt(Math.round((unitMicros[unit] ?? 0) * 1000));
  const digits = fraction.slice(0, 15) || '0';
  return BigInt(whole || '0') * one + (BigInt(digits) * one) / 10n ** BigInt(digits.length);
}

/** `1h30m`, `-2.5s`; digits beyond microseconds are cut off. */
export function readSpan(text: string): bigint | undefined {
  if (text === '0') return 0n;
  const start = text.startsWith('-') || text.startsWith('+') ? 1 : 0;
  if (text.length > 100 || text.length === start) return undefined;
  let nanos = 0n;
  spanPart.lastIndex = start;
  for (let at = start; at < text.length; at = spanPart.lastIndex) {
    const part = nanosOf(spanPart.exec(text));
    if (part === undefined) return undefined;
    nanos += part;
  }
  const micros = (text.startsWith('-') ? -nanos : nanos) / 1000n;
  return isSpan(micros) ? micros : undefined;
}

/** Milliseconds since the epoch, rounded down. */
export const millisOf = (micros: bigint): number => {
  const rest = ((micros % 1000n) + 1000n) % 1000n;
  return Number((micros - rest) / 1000n);
};

/** As PostgreSQL reads it, with microseconds. */
export function momentTextOf(micros: bigint): string {
  const rest = ((micros % 1000n) + 1000n) % 1000n;
  const text = new Date(millisOf(micros)).toISOString();
  return `${text.slice(0, -1)}${String(rest).padStart(3, '0')}Z`;
}

/** As CEL writes spans: seconds. */
export function spanTextOf(micros: bigint): string {
  const sign = micros < 0n ? '-' : '';
  const size = micros < 0n ? -micros : micros;
  const fraction = withoutEnd(String(size % MICROS).padStart(6, '0'), '0');
  return `${sign}${size / MICROS}${fraction === '' ? '' : `.${fraction}`}s`;
}

export const momentParts = [
  'getFullYear',
  'getMonth',
  'getDate',
  'getDayOfMonth',
  'getDayOfWeek',
  'getDayOfYear',
  'getHours',
  'getMinutes',
  'getSeconds',
  'getMilliseconds',
] as const;
export type MomentPart = (typeof momentParts)[number];

/** A part of a moment in a zone: a fixed offset, or a name of the IANA database. Nothing for an unknown zone. */
export function partOf(part: MomentPart, micros: bigint, zone: string): bigint | undefined {
  const localTime = localDate(micros, zone);
  if (!localTime) return undefined;
  switch (part) {
    case 'getFullYear':
      return BigInt(localTime.getUTCFullYear());
    case 'getMonth':
      return BigInt(localTime.getUTCMonth());
    case 'getDate':
      return BigInt(localTime.getUTCDate());
    case 'getDayOfMonth':
      return BigInt(localTime.getUTCDate() - 1);
    case 'getDayOfWeek':
      return BigInt(localTime.getUTCDay());
    case 'getDayOfYear': {
      const first = new Date(localTime);
      first.setUTCMonth(0, 1);
      return BigInt(Math.round((localTime.getTime() - first.getTime()) / 86_400_000));
    }
    case 'getHours':
      return BigInt(localTime.getUTCHours());
    case 'getMinutes':
      return BigInt(localTime.getUTCMinutes());
    case 'getSeconds':
      return BigInt(localTime.getUTCSeconds());
    case 'getMilliseconds':
      return BigInt(localTime.getUTCMilliseconds());
  }
}

/** The local time, as if it were UTC. */
function localDate(micros: bigint, zone: string): Date | undefined {
  const millis = millisOf(micros);
  const offset = offsetOf(zone);
  if (offset !== undefined) return new Date(millis + offset * 60_000);
  try {
    const parts = new Intl.DateTimeFormat('en-US', {
      timeZone: zone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    }).formatToParts(new Date(millis));
    const read = (type: string): number =>
      Number(parts.find((part) => part.type === type)?.value ?? 0);
    const local = Date.UTC(
      read('year'),
      read('month') - 1,
      read('day'),
      read('hour'),
      read('minute'),
      read('second'),
    );
    return new Date(local + (((millis % 1000) + 1000) % 1000));
  } catch {
    return undefined;
  }
}
