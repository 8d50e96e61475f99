/** Values of fields: what each type takes, by the rules of the field. */
import { compilePattern } from '../../../data/schema/language/pattern/compile.ts';
import type { FormField } from './field.ts';

interface ValueProblem {
  readonly code: string;
  readonly message: string;
}
export type ReadValue = { readonly value: unknown } | { readonly problem: ValueProblem };

const bad = (code: string, message: string): ReadValue => ({ problem: { code, message } });

/** Nothing was filled in: no value, an empty text, nothing chosen. */
export const isBlank = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === '' ||
  (Array.isArray(value) && value.every(isBlank));

type Reader = (field: FormField, value: unknown, valueLength: number) => ReadValue;

/** A value that is there, by the type and the rules of its field. Files are none of these. */
export const readValue: Reader = (field, value, valueLength) => {
  const read = readers.get(field.type);
  return read ? read(field, value, valueLength) : bad('type', 'cannot be sent as a value');
};

const asText = (value: unknown, max: number): string | ReadValue => {
  if (typeof value !== 'string') return bad('type', 'must be a text');
  return value.length > max ? bad('maxLength', `must not be longer than ${max} characters`) : value;
};

const readText: Reader = ({ minLength = 0, maxLength, pattern }, value, valueLength) => {
  // HTML forms end lines with both signs, scripts with one.
  const given = typeof value === 'string' ? value.replaceAll('\r\n', '\n') : value;
  const text = asText(given, Math.min(maxLength ?? valueLength, valueLength));
  if (typeof text !== 'string') return text;
  if (text.length < minLength)
    return bad('minLength', `must have at least ${minLength} characters`);
  if (pattern !== undefined && !compilePattern(pattern).matches(text))
    return bad('pattern', 'does not look as this field wants it');
  return { value: text };
};

const readEmail: Reader = (_field, value) => {
  const text = asText(value, 254);
  if (typeof text !== 'string') return text;
  const address = text.trim();
  return isMailbox(address) ? { value: address } : bad('email', 'must be an e-mail address');
};

const numeric = /^[+-]?\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?$/;

const readNumber: Reader = ({ min, max, integer = false }, value) => {
  const number =
    typeof value === 'string' && numeric.test(value.trim()) ? Number(value.trim()) : value;
  if (typeof number !== 'number' || !Number.isFinite(number))
    return bad('number', 'must be a number');
  if (integer && !Number.isInteger(number)) return bad('integer', 'must be a whole number');
  if (min !== undefined && number < Number(min)) return bad('min', `must be at least ${min}`);
  if (max !== undefined && number > Number(max)) return bad('max', `must be at most ${max}`);
  return { value: number };
};

/** ISO 8601: a date, or a date with a time, as HTML fields send them. */
const isoDate =
  /^(\d{4})-(\d{2})-(\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})?)?$/;

function isDate(text: string): boolean {
  const [, year, month, day] = isoDate.exec(text) ?? [];
  if (day === undefined || Number.isNaN(Date.parse(text))) return false;
  // The 30th of February is the 2nd of March for `Date`.
  const date = new Date(Date.UTC(Number(year), Number(month) - 1, Number(day)));
  return date.getUTCMonth() === Number(month) - 1 && date.getUTCDate() === Number(day);
}

const readDate: Reader = ({ min, max }, value) => {
  const text = asText(value, 40);
  if (typeof text !== 'string') return text;
  if (!isDate(text)) return bad('date', 'must be a date like 2026-01-31, or a date with a time');
  const at = Date.parse(text);
  if (min !== undefined && at < Date.parse(String(min)))
    return bad('min', `must not be before ${min}`);
  if (max !== undefined && at > Date.parse(String(max)))
    return bad('max', `must not be after ${max}`);
  return { value: text };
};

const readSelect: Reader = ({ options = [], multiple = false }, value) => {
  const chosen = [value].flat();
  if (!multiple && chosen.length > 1) return bad('options', 'only one can be chosen');
  if (chosen.length > options.length) return bad('options', 'has too many values');
  const known = new Set<unknown>(options);
  if (!chosen.every((one) => known.has(one))) return bad('options', 'is not one of the options');
  return { value: multiple ? [...new Set(chosen)] : chosen[0] };
};

const switches: ReadonlyMap<unknown, boolean> = new Map<unknown, boolean>([
  [true, true],
  ['on', true],
  ['true', true],
  ['1', true],
  [1, true],
  [false, false],
  ['off', false],
  ['false', false],
  ['0', false],
  [0, false],
]);

const readCheckbox: Reader = ({ required }, value) => {
  const checked = switches.get(value);
  if (checked === undefined) return bad('checkbox', 'must be true or false');
  return required && !checked ? bad('required', 'must be checked') : { value: checked };
};

const readUrl: Reader = (_field, value) => {
  const text = asText(value, 2_048);
  if (typeof text !== 'string') return text;
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)
    ? { value: text }
    : bad('url', 'must be an address like https://example.com');
};

const phone = /^\+?[0-9 ()./-]{5,30}$/;

const readPhone: Reader = (_field, value) => {
  const text = asText(value, 31);
  if (typeof text !== 'string') return text;
  return phone.test(text) && text.replace(/\D/g, '').length >= 5
    ? { value: text }
    : bad('phone', 'must be a telephone number');
};

const readers: ReadonlyMap<FormField['type'], Reader> = new Map<FormField['type'], Reader>([
  ['text', readText],
  ['textarea', readText],
  ['email', readEmail],
  ['number', readNumber],
  ['date', readDate],
  ['select', readSelect],
  ['checkbox', readCheckbox],
  ['url', readUrl],
  ['phone', readPhone],
]);

/** One mailbox in ASCII: no name, no list, no quotes, no line breaks (RFC 5321 4.1.2, without quoted parts). */
const mailbox =
  /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*$/;

/** Whether a text is the address of one mailbox, and nothing else. */
export const isMailbox = (text: string): boolean => text.length <= 254 && mailbox.test(text);
