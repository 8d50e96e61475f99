/** Lists as values of statements: the text of a list that is used again is made once. */

const texts = new WeakMap<readonly (string | boolean)[], string>();

/** A list as PostgreSQL reads it. The list must not be changed afterwards. */
export function arrayText(values: readonly (string | boolean)[]): string {
  let text = texts.get(values);
  if (text === undefined) {
    text = `{${values.map(elementText).join(',')}}`;
    texts.set(values, text);
  }
  return text;
}

const elementText = (value: string | boolean): string =>
  typeof value === 'string' ? `"${value.replace(/["\\]/g, '\\$&')}"` : value ? 't' : 'f';
