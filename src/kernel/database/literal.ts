/** Values as SQL text, for the defaults in DDL, which takes no parameters. */

const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** In quotes, because without them the word null is no text. */
const element = (value: unknown): string => `"${String(value).replace(/["\\]/g, '\\$&')}"`;

/** A checked value of the schema language as a literal of a column type. */
export function literalOf(value: unknown, type: string): string {
  if (type === 'jsonb') return `${quoted(JSON.stringify(value))}::jsonb`;
  if (Array.isArray(value)) return `${quoted(`{${value.map(element).join(',')}}`)}::${type}`;
  return `${quoted(String(value))}::${type}`;
}
