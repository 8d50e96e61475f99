/** Texts of others, cut and cleaned so that every store and every reader can take what is left. */

const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff;

/**
 * The beginning of a text: at most `max` UTF-16 units, and never half of a character. PostgreSQL refuses a text
 * that ends in half a surrogate pair, and with it the row that it stands in.
 */
export function cutText(text: string, max: number): string {
  if (text.length <= max) return text;
  return text.slice(0, isHighSurrogate(text.charCodeAt(max - 1)) ? max - 1 : max);
}

/** The same with `...` at the end where something was cut off. */
export const shortened = (text: string, max: number): string =>
  text.length > max ? `${cutText(text, max)}...` : text;

/** The text without all of one character that stand at its end. */
export function withoutEnd(text: string, character: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === character) end--;
  return text.slice(0, end);
}

/** True for what text and jsonb of PostgreSQL take. */
export const isStorable = (text: string): boolean => !text.includes('\0') && text.isWellFormed();

/** The text without NUL and with U+FFFD for half characters: for what must be written down whatever it is. */
export const storable = (text: string): string =>
  isStorable(text) ? text : text.toWellFormed().replaceAll('\0', '');

/** JSON text of which jsonb takes every value: for rows that are written together and hold words of others. */
export const storableJson = (value: unknown): string =>
  JSON.stringify(value, (_key, part: unknown) =>
    typeof part === 'string' ? storable(part) : part,
  );
