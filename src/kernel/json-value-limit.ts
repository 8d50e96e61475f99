/** A limit for the number of values in a JSON text, checked before it is parsed: each value costs time and memory. */
import { errors } from './errors.ts';

/** Values in one text. A thousand records of five hundred fields fit, or a string of any length. */
const MAX_VALUES = 500_000;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPEN_LIST = 0x5b;
const OPEN_OBJECT = 0x7b;

/**
 * Throws 413 for a text with more values than `max`. Counted by commas and opening brackets outside of texts, which is
 * right for valid JSON and harmless for any other.
 */
export function requireValueLimit(bytes: Buffer, what: string, max = MAX_VALUES): void {
  let count = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (byte === QUOTE) i = endOfText(bytes, i);
    else if (byte === COMMA || byte === OPEN_LIST || byte === OPEN_OBJECT) count += 1;
    // What comes after it makes no difference.
    if (count > max)
      throw errors.PAYLOAD_TOO_LARGE({
        message: `${what} holds more than ${max} values: send it in parts`,
      });
  }
}

/** The place of the quote that ends the text which begins at `start`. */
function endOfText(bytes: Buffer, start: number): number {
  let end = bytes.indexOf(QUOTE, start + 1);
  while (end !== -1 && isEscaped(bytes, end)) end = bytes.indexOf(QUOTE, end + 1);
  return end === -1 ? bytes.length : end;
}

/** An odd number of backslashes stands before it. A run of them belongs to one quote, so all are looked at once. */
function isEscaped(bytes: Buffer, place: number): boolean {
  let first = place;
  while (bytes[first - 1] === BACKSLASH) first -= 1;
  return (place - first) % 2 === 1;
}

/** The value of a JSON text. `what`: what it is, for the message. Throws 413, and what `JSON.parse` throws. */
export function parseBoundedJson(text: string, what: string): unknown {
  if (text.length > MAX_VALUES) requireValueLimit(Buffer.from(text), what);
  return JSON.parse(text);
}
