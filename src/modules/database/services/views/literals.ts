/** Values as text of a statement, where PostgreSQL takes no parameters: in the definition of a view. */
import pg from 'pg';
import type { Parameters } from '../../../../kernel/records/parameters.ts';

/** Each value stands quoted in the statement, without a type of its own, as a parameter would. */
export const literalParameters = (): Parameters => ({ values: [], next: literal });

function literal(value: unknown): string {
  return value === null || value === undefined ? 'null' : pg.escapeLiteral(textOf(value));
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value)) return `{${value.map(elementOf).join(',')}}`;
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

const elementOf = (value: unknown): string => {
  if (value === null || value === undefined) return 'NULL';
  return Array.isArray(value) ? textOf(value) : `"${textOf(value).replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
};
