/**
 * Keeps secrets out of logs and audit rows, at whatever depth they stand: by the name of the key, and by the form of
 * the value. Callers still pass none; this is the net below them.
 *
 * What is passed may be as large as a request, so the work is bounded by what comes out: a value that is too large
 * is cut so that each of its parts keeps a fair share, and every expression takes linear time.
 */
import { cutText, shortened, storable } from '../text.ts';

/*
 * Divides room among the parts of a value that has too little of it. A part that needs less than its share leaves
 * the rest to the others, so that a large part is cut and small ones stay whole: whoever pads a request cannot push
 * out of a row what they changed.
 */

interface Part {
  readonly name: string;
  readonly value: unknown;
  /** UTF-16 units that it may take. */
  readonly share: number;
}

interface Parts {
  readonly kept: readonly Part[];
  /** How many there was no room for. */
  readonly omitted: number;
}

/** Room that each part has at least: its name and a few characters. */
const MIN_SHARE = 24;
/** Levels that are measured; what is deeper is nobody's text. */
const MAX_DEPTH = 64;
const MAX_PART_NAME = 128;

/** Gives each entry its share of `room`; where not even the names fit, the first and the last ones are kept. */
function shared(entries: readonly (readonly [string, unknown])[], room: number): Parts {
  const whole = inFull(entries, room);
  if (whole) return { kept: whole, omitted: 0 };
  const places = Math.max(2, Math.floor(room / MIN_SHARE));
  const kept =
    entries.length > places
      ? [...entries.slice(0, places >> 1), ...entries.slice(-(places >> 1))]
      : entries;
  const needs = kept.map(([name, value]) => need(name) + measured(value, room, MAX_DEPTH));
  const shares = new Array<number>(kept.length).fill(0);
  let left = room;
  const bySize = needs.map((size, index) => ({ size, index })).sort((a, b) => a.size - b.size);
  for (const [done, { size, index }] of bySize.entries()) {
    const share = Math.min(size, Math.max(MIN_SHARE, Math.floor(left / (bySize.length - done))));
    shares[index] = share;
    left = Math.max(0, left - share);
  }
  const parts = kept.map(([name, value], index) => ({
    name,
    value,
    share: Math.max(1, (shares[index] ?? 0) - need(name)),
  }));
  return { kept: parts, omitted: entries.length - kept.length };
}

/** The parts with all that they need, when there is room for it. */
function inFull(
  entries: readonly (readonly [string, unknown])[],
  room: number,
): readonly Part[] | undefined {
  const kept: Part[] = [];
  let left = room;
  for (const [name, value] of entries) {
    const share = measured(value, left, MAX_DEPTH);
    left -= need(name) + share;
    if (left < 0) return undefined;
    kept.push({ name, value, share });
  }
  return kept;
}

/** True when the value takes at most so many units. */
const isSmall = (value: unknown, room: number): boolean => measured(value, room, MAX_DEPTH) <= room;

/** Quotes, colon and comma included. */
const need = (name: string): number => Math.min(name.length, MAX_PART_NAME) + 4;

/** About the length of the value's JSON. Stops soon after `enough`, so that it costs no more than that. */
function measured(value: unknown, enough: number, depth: number): number {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value !== 'object' || value === null) return 8;
  if (value instanceof Error || value instanceof Date || ArrayBuffer.isView(value) || depth === 0)
    return 32;
  let sum = 2;
  if (Array.isArray(value)) {
    for (const item of value) {
      if (sum > enough) break;
      sum += need('') + measured(item, enough - sum, depth - 1);
    }
    return sum;
  }
  for (const key in value) {
    if (sum > enough) break;
    sum += need(key) + measured((value as Record<string, unknown>)[key], enough - sum, depth - 1);
  }
  return sum;
}

const secretKey =
  /authorization|cookie|master-?_?key|credential|password|passwd|passphrase|secret|token|api-?_?key|private-?_?key|bearer|otp|backup-?_?codes?/i;

/** Names that look like secrets and are none. */
const harmlessKey = /^(?:tokenPrefix|tokenId|tokens|passwordChangedAt|mustChangePassword)$/;

/**
 * Values that are secrets wherever they stand: API tokens, JWTs (also the beginning of one), bearer headers, passwords
 * in addresses. What was read once is never read again from another beginning.
 */
const secretValues: readonly (readonly [RegExp, string])[] = [
  [/\bcdt_[A-Za-z0-9_-]{8,}/g, 'cdt_[redacted]'],
  [/\beyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*){0,2}/g, '[redacted]'],
  [/\bbearer\s+[^\s"',]+/gi, 'Bearer [redacted]'],
  [/(:\/\/[^\s:/@]*):[^\s/@]+@/g, '$1:[redacted]@'],
];

const REDACTED = '[redacted]';

/*
 * What stands in the query of an address is no path to anything: services that call and are called put their tokens there
 * (`?token=`, `?sig=`), under whatever name. The names stay, since they say what was set
 * (docs/decisions/542-addresses-without-their-values.md).
 */

/** An address from its host on. What follows the path is taken whole, so that nothing is read twice. */
const addresses = /:\/\/[^\s?#"'<>`]*(?:[?#][^\s"'<>`]*)?/g;
/** `name=value`, or a value alone. */
const queryPart = /[^?&;]+/g;

const valueless = (part: string): string => {
  const at = part.indexOf('=');
  if (at < 0) return REDACTED;
  return at === part.length - 1 ? part : part.slice(0, at + 1) + REDACTED;
};

function withoutQueryValues(address: string): string {
  const start = address.search(/[?#]/);
  if (start < 0) return address;
  const hash = address.indexOf('#', start);
  const end = hash < 0 ? address.length : hash;
  const query = address.slice(start, end).replace(queryPart, valueless);
  // The place in a page is no value; some sign-ins answer with one there.
  const fragment = address
    .slice(end + 1)
    .replace(queryPart, (part) => (part.includes('=') ? valueless(part) : part));
  return address.slice(0, start) + query + (hash < 0 ? '' : `#${fragment}`);
}

/** The text with its addresses without the values of their queries. Twice is the same as once. */
export const withoutAddressValues = (text: string): string =>
  text.includes('://') ? text.replace(addresses, withoutQueryValues) : text;

/** UTF-16 units of one text. */
const MAX_TEXT = 8_192;
const MAX_NAME = 128;

/** What may come out. */
interface RedactionLimits {
  /** UTF-16 units of all texts and names; their JSON may be longer by what it escapes. */
  readonly characters: number;
  /** Levels of objects and lists. */
  readonly depth: number;
}

const lineLimits: RedactionLimits = { characters: 16_384, depth: 8 };

/** The text without what looks like a secret, at most `max` UTF-16 units of it. */
export function redactText(text: string, max = MAX_TEXT): string {
  // What is cut off by `max` alone may be the end of a secret by which it is known.
  const cut = cutText(text, Math.min(MAX_TEXT, max + 1_024));
  const redacted = secretValues.reduce(
    (all, [pattern, replacement]) => all.replace(pattern, replacement),
    withoutAddressValues(storable(cut)),
  );
  return text.length > cut.length || redacted.length > max
    ? `${cutText(redacted, max)}...`
    : redacted;
}

/** A copy of `fields` that is fit for a log line, or within other limits. */
export function redact(fields: object, limits = lineLimits): Record<string, unknown> {
  return redactObject(fields, limits.characters, limits.depth);
}

function redactObject(object: object, characters: number, depth: number): Record<string, unknown> {
  const { kept, omitted } = shared(Object.entries(object), characters);
  const copy = kept.map(({ name, value, share }): [string, unknown] => [
    storable(shortened(name, MAX_NAME)),
    isSecret(name, value) ? REDACTED : redactValue(value, share, depth - 1),
  ]);
  return Object.fromEntries(omitted > 0 ? [...copy, ['[omitted]', `${omitted} more`]] : copy);
}

const isSecret = (key: string, value: unknown): boolean =>
  secretKey.test(key) && !harmlessKey.test(key) && mayBeSecret(value);

/** A flag is no secret. A number may be: one-time codes are numbers. */
const mayBeSecret = (value: unknown): boolean =>
  value !== undefined && value !== null && typeof value !== 'boolean';

/** What takes the place of secrets may be longer than they were, but only so much. */
const roomOf = (text: string): number => Math.min(MAX_TEXT, text.length * 2 + 64);

function redactValue(value: unknown, characters: number, depth: number): unknown {
  if (typeof value === 'string')
    return redactText(value, isSmall(value, characters) ? roomOf(value) : characters);
  if (typeof value === 'bigint') return String(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth < 0) return '[deep]';
  if (value instanceof Error) return describeError(value, characters, depth);
  if (value instanceof Date) return value;
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (!Array.isArray(value)) return redactObject(value, characters, depth);
  const { kept, omitted } = shared(
    value.map((item) => ['', item]),
    characters,
  );
  const items = kept.map((item) => redactValue(item.value, item.share, depth - 1));
  return omitted > 0 ? [...items, `[${omitted} more]`] : items;
}

/** What a log may say about an error. Database errors lose the values that PostgreSQL quotes. */
function describeError(error: Error, characters: number, depth: number): Record<string, unknown> {
  const message = redactText(withoutValues(error));
  const described: Record<string, unknown> = { type: error.name, message, stack: framesOf(error) };
  for (const key of [
    'code',
    'status',
    'severity',
    'schema',
    'table',
    'column',
    'constraint',
    'routine',
  ] as const) {
    const value: unknown = Reflect.get(error, key);
    if (typeof value === 'string' || typeof value === 'number') described[key] = value;
  }
  if (error.cause !== undefined) described.cause = redactValue(error.cause, characters, depth - 1);
  return described;
}

/** PostgreSQL appends the offending value after a colon; `severity` and `routine` are on every error of the server. */
function withoutValues(error: Error): string {
  const message = cutText(error.message, MAX_TEXT);
  const fromServer = 'severity' in error && 'routine' in error;
  return fromServer
    ? message.replace(/: ".*$/s, '').replace(/=\([^)]*(?:\)|$)/g, '=(...)')
    : message;
}

/** The stack without its first lines, which repeat the message. */
const framesOf = (error: Error): string =>
  (error.stack ?? '')
    .slice(-MAX_TEXT)
    .split('\n')
    .filter((line) => /^ {4}at /.test(line))
    .map((line) => line.trim())
    .join('\n');
