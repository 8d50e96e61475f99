/**
 * Tagged template for statements with values: `sql`select ... where id = ${id}``.
 * Values become parameters; text can only come from the source code (or from
 * `identifier`), so input never reaches SQL as text.
 */
import { createHash } from 'node:crypto';
import type pg from 'pg';
import type { Statement, StatementClass } from './database.ts';

/*
 * Names of prepared statements as they are sent. A schema change can make a
 * prepared statement unusable on every connection that holds it; such a
 * statement gets a new name, so that it is prepared afresh.
 */

export interface StatementNames {
  /** The driver's form of a statement; a new object, because the driver writes into it. */
  toQuery(statement: Statement): pg.QueryConfig<unknown[]>;
  /** From now on the statement is prepared under another name than `sentAs`. */
  renew(statement: Statement, sentAs: string | undefined): void;
}

export function createStatementNames(enabled: boolean): StatementNames {
  const generations = new Map<string, number>();

  const nameOf = (name: string): string => {
    const generation = generations.get(name);
    return generation === undefined ? name : `${name.slice(0, 55)}_${generation.toString(36)}`;
  };

  return {
    toQuery({ text, values, name }) {
      if (!enabled || name === undefined) return { text, values: values as unknown[] };
      return {
        text,
        values: values as unknown[],
        name: generations.size === 0 ? name : nameOf(name),
      };
    },
    renew({ name }, sentAs) {
      // Many failures of one name arrive together: only the first of them moves it on.
      if (name !== undefined && sentAs === nameOf(name))
        generations.set(name, (generations.get(name) ?? 0) + 1);
    },
  };
}

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

/**
 * An instant (SQL, `timestamptz(3)` of the years 1 to 9999) as ISO 8601 with milliseconds. Every session of the platform has
 * the time zone UTC and dates in the style ISO (connection.ts). With a microsecond more all six digits are written.
 * `to_char` says the same in twice the time, and was a fifth of what a record costs to render.
 */
export const instantText = (value: string): string =>
  `replace(replace((${value} + interval '1 microsecond')::text, '001+00', 'Z'), ' ', 'T')`;
