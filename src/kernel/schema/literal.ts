/** Values as SQL text, for the defaults in DDL, which takes no parameters. */

const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** A checked value of the schema language as a literal of a column type. */
export function literalOf(value: unknown, type: string): string {
  if (type === 'jsonb') return `${quoted(JSON.stringify(value))}::jsonb`;
  if (Array.isArray(value)) return `${quoted(`{${value.join(',')}}`)}::${type}`;
  return `${quoted(String(value))}::${type}`;
}
