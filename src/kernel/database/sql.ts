/**
 * Tagged template for statements with values: `sql`select ... where id = ${id}``.
 * Values become parameters; text can only come from the source code (or from
 * `identifier`), so input never reaches SQL as text.
 */
import { createHash } from 'node:crypto';
import type { Statement } from './database.ts';

const names = new Map<string, string>();

/** The stable prepared-statement name of a text. Only for texts from a bounded set. */
export function statementName(text: string): string {
  const known = names.get(text);
  if (known) return known;
  const name = `p_${createHash('sha256').update(text).digest('base64url').slice(0, 24)}`;
  names.set(text, name);
  return name;
}

const preparedTexts = new WeakMap<TemplateStringsArray, { text: string; name: string }>();

/** A statement with a prepared-statement name: the text is fixed, only values differ. */
export function sql(strings: TemplateStringsArray, ...values: readonly unknown[]): Statement {
  let prepared = preparedTexts.get(strings);
  if (!prepared) {
    const text = strings.reduce((all, part, i) => `${all}$${i}${part}`);
    prepared = { text, name: statementName(text) };
    preparedTexts.set(strings, prepared);
  }
  return { text: prepared.text, name: prepared.name, values };
}

/** Quotes a name for SQL text. Names come from the registry of schemas, never from a request. */
export function identifier(name: string): string {
  if (name.includes('\0')) throw new Error('an identifier cannot hold NUL');
  return `"${name.replaceAll('"', '""')}"`;
}
