/** Which names schemas and fields may have (spec/database.md 5.1), and the names that are derived from them. */

import { createHash } from 'node:crypto';
import { cutText, shortened } from '../../../kernel/text.ts';

const nameRule = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/;

/** Path segments under `/database` that are not schemas. */
const reservedSchemas: ReadonlySet<string> = new Set([
  'function',
  'many',
  'batch',
  'types',
  'schemas',
]);

/** Names that the database module keeps for itself (spec/database.md section 4). */
export const systemSchemas: readonly string[] = [
  '_DeclaredSchema',
  'CustomEndpoints',
  '_PendingSchemas',
  'MigratedSchemas',
  'Views',
];
const systemNames: ReadonlySet<string> = new Set(systemSchemas.map((name) => name.toLowerCase()));

/** Columns that PostgreSQL has in every table. */
const systemColumns: ReadonlySet<string> = new Set([
  'tableoid',
  'xmin',
  'cmin',
  'xmax',
  'cmax',
  'ctid',
]);

/** Fields that the platform adds to each record; declaring them with these types changes nothing. */
export const automaticFields: ReadonlyMap<string, string> = new Map([
  ['_id', 'ObjectId'],
  ['createdAt', 'Date'],
  ['updatedAt', 'Date'],
  ['__v', 'Number'],
]);

/** True for what is written like the name of a schema or a field. */
export const isNameLike = (name: string): boolean =>
  nameRule.test(name) && !(name in Object.prototype);

/** Why a schema may not have this name; `undefined` when it may. */
export function schemaNameProblem(name: string): string | undefined {
  if (!nameRule.test(name))
    return 'a schema name starts with a letter or _, then letters, digits and _, at most 63 in all';
  if (name in Object.prototype) return `"${name}" is a word of the language; choose another name`;
  if (reservedSchemas.has(name.toLowerCase()) || systemNames.has(name.toLowerCase()))
    return `"${name}" is a word of the platform; choose another name`;
  return undefined;
}

/** Why a field may not have this name. `top`: it becomes a column. */
export function fieldNameProblem(name: string, top: boolean): string | undefined {
  if (!nameRule.test(name))
    return 'a field name starts with a letter or _, then letters, digits and _, at most 63 in all';
  if (name in Object.prototype) return `"${name}" is a word of the language; choose another name`;
  if (top && systemColumns.has(name))
    return `"${name}" is a word of the database; choose another name`;
  return undefined;
}

/** A PostgreSQL name of at most 63 bytes that differs whenever one of its parts differs. */
export function derivedName(kind: 'pk' | 'ix' | 'ux' | 'fk', ...parts: readonly string[]): string {
  const digest = createHash('sha256').update(parts.join('\0')).digest('hex').slice(0, 10);
  const readable = cutText(parts.join('_'), 63 - kind.length - digest.length - 2);
  return `${kind}_${readable}_${digest}`;
}

/** Shortens a name from input so that it can be repeated in an error. */
export const shortName = (name: string): string => shortened(name, 64);
