/** Names of tables and columns as names of schemas and fields: any name there becomes a valid one here, and no two the same. */
import { createHash } from 'node:crypto';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { fieldNameProblem } from '../../../../data/schema/language/names.ts';
import { type QualifiedName, sameName } from '../../../../data/schema/mapping/table-mapping.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import type { PendingName } from './pending-store.ts';

/** In front of the names of imported schemas (spec/database.md 5.3). */
export const importedPrefix = 'imp_';

/** Names have at most 63 characters; the prefix and what tells twins apart must fit behind. */
const MAX_NAME = 48;

/** The name with what a name here cannot hold replaced by `_`. */
function plainName(name: string): string {
  const ascii = name
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/[^A-Za-z0-9_]+/g, '_')
    .slice(0, MAX_NAME);
  if (/^_*$/.test(ascii)) return 'unnamed';
  return /^\d/.test(ascii) ? `_${ascii}` : ascii;
}

const digest = (text: string): string =>
  createHash('sha256').update(text).digest('hex').slice(0, 8);

interface Original {
  readonly name: string;
  readonly identity: string;
  /** Nothing is called so: the name gives way to one that is. */
  readonly made?: boolean;
}

/**
 * A name for each of the originals, which differ from each other. `compare` makes two names the same (case);
 * `taken` are names that nothing may get. The same originals always get the same names.
 */
function distinctNames(
  originals: readonly Original[],
  {
    compare,
    isRefused,
  }: { readonly compare: (name: string) => string; readonly isRefused: (name: string) => boolean },
): string[] {
  const plain = originals.map(({ name }) => plainName(name));
  const exact = new Set(
    originals
      .filter(({ name, made }, i) => !made && name === plain[i] && !isRefused(name))
      .map(({ name }) => compare(name)),
  );
  const seen = new Set<string>();
  return originals.map(({ name, identity, made }, i) => {
    const requested = plain[i] ?? 'unnamed';
    const key = compare(requested);
    // A name that had to be changed gives way to one that did not.
    const isOwn = name === requested && !made;
    const free = !seen.has(key) && !isRefused(requested) && (isOwn || !exact.has(key));
    let chosen = free ? requested : `${requested}_${digest(identity)}`;
    while (seen.has(compare(chosen)) || isRefused(chosen)) chosen += '_';
    seen.add(compare(chosen));
    return chosen;
  });
}

/** Field names, by column, in order. */
export const fieldNames = (columns: readonly string[], reserved: ReadonlySet<string>): string[] =>
  distinctNames(
    columns.map((name) => ({ name, identity: name })),
    {
      compare: (name) => name,
      isRefused: (name) => reserved.has(name) || fieldNameProblem(name, true) !== undefined,
    },
  );

type Table = { readonly schema: string; readonly name: string };

/**
 * Names of pending schemas, by table, in order. Schema names differ by more than case. Of tables with one name in
 * several schemas of PostgreSQL that of `public`, else the first, keeps it; others say where they are (`sales_person`).
 * `among`: all tables that there are, so that names stay when some of them have a schema by now.
 */
export function schemaNames(
  tables: readonly Table[],
  taken: ReadonlySet<string>,
  among: readonly Table[] = tables,
): string[] {
  const compare = (name: string): string => name.toLowerCase();
  const isRefused = (name: string): boolean => taken.has(compare(`${importedPrefix}${name}`));
  const homes = new Map<string, string>();
  const shared = new Set<string>();
  for (const { schema, name } of among) {
    const key = compare(plainName(name));
    const home = homes.get(key);
    if (home !== undefined && home !== schema) shared.add(key);
    if (home === undefined || schema === 'public') homes.set(key, schema);
  }
  const originals = tables.map(({ schema, name }): Original => {
    const [plain, identity] = [plainName(name), `${schema}\0${name}`];
    const key = compare(plain);
    const keeps = !shared.has(key) || (homes.get(key) === schema && !isRefused(plain));
    return keeps ? { name, identity } : { name: `${schema}_${name}`, identity, made: true };
  });
  return distinctNames(originals, { compare, isRefused });
}

/* Which tables have a schema, or would get one, and what it is called. */

/** How a table is called in lists: outside of `public` with its schema. */
export const tableLabel = ({ schema, name }: QualifiedName): string =>
  schema === 'public' ? name : `${schema}.${name}`;

export const isImported = ({ mapping }: CompiledSchema, table: QualifiedName): boolean =>
  mapping !== undefined && sameName(mapping.source, table);

/** A name that an admin chose is taken as it is; others get the prefix of imported schemas. */
export const finalName = (pending: string, renamed: boolean): string =>
  renamed ? pending : `${importedPrefix}${pending}`;

/** The name of the schema over a table, now or after it is finalised. */
export function sourceNames(
  schemas: SchemaRegistry,
  pending: readonly PendingName[],
): (table: QualifiedName) => string | undefined {
  const key = ({ schema, name }: QualifiedName): string => JSON.stringify([schema, name]);
  const names = new Map(pending.map((one) => [key(one), finalName(one.pending, one.renamed)]));
  for (const { mapping, name } of schemas.all()) if (mapping) names.set(key(mapping.source), name);
  return (table) => names.get(key(table));
}
