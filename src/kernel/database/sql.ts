/**
 * Tagged template for statements with values: `sql`select ... where id = ${id}``.
 * Values become parameters; text can only come from the source code (or from
 * `identifier`), so input never reaches SQL as text.
 */
import { createHash } from 'node:crypto';
import type { Statement, StatementClass } from './database.ts';

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

function prepared(strings: TemplateStringsArray): { readonly text: string; readonly name: string } {
  let known = preparedTexts.get(strings);
  if (!known) {
    const text = strings.reduce((all, part, i) => `${all}$${i}${part}`);
    known = { text, name: statementName(text) };
    preparedTexts.set(strings, known);
  }
  return known;
}

/** A statement with a prepared-statement name: the text is fixed, only values differ. */
export function sql(strings: TemplateStringsArray, ...values: readonly unknown[]): Statement {
  const { text, name } = prepared(strings);
  return { text, name, values };
}

const ofClass =
  (kind: StatementClass) =>
  (strings: TemplateStringsArray, ...values: readonly unknown[]): Statement => {
    const { text, name } = prepared(strings);
    return { text, name, values, class: kind };
  };

/** The same, known to touch few rows by an index (classes: database.ts). */
export const shortSql = ofClass('short');

/** The same, for sessions and credentials. */
export const identitySql = ofClass('identity');

/** The same, for what tells whether this process is alive and knows what others know. */
export const healthSql = ofClass('health');

/** Quotes a name for SQL text. Names come from the registry of schemas, never from a request. */
export function identifier(name: string): string {
  if (name.includes('\0')) throw new Error('an identifier cannot hold NUL');
  return `"${name.replaceAll('"', '""')}"`;
}
