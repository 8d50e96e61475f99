/** Tables that are there, by what has become of them, and why some cannot be served. */
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import type { Database, Statement } from '../../../../kernel/database/database.ts';
import { sql } from '../../../../kernel/database/sql.ts';
import { cutText } from '../../../../kernel/text.ts';
import { closedSchema } from '../../config.ts';
import { type CatalogueColumn, MAX_RELATIONS, readColumns, readRelations } from './catalogue.ts';
import { servedColumns } from './infer.ts';
import type { SkippedColumn } from './inferred.ts';
import { tableLabel } from './names.ts';
import { pendingNames } from './pending-store.ts';

export interface UnservedTable {
  readonly name: string;
  readonly reason: string;
}

export interface IntrospectionStatus {
  readonly foreignSchemas: readonly string[];
  readonly pendingSchemas: readonly string[];
  readonly importedSchemas: readonly string[];
  /** Tables that no introspection makes pending. Those among them that it looks at are foreign too. */
  readonly unservedSchemas: readonly UnservedTable[];
}

interface StatusDependencies {
  readonly database: Database;
  readonly schemas: SchemaRegistry;
}

/** `among`: the schemas of PostgreSQL that introspection looks into. */
export async function statusOf(
  { database, schemas }: StatusDependencies,
  among: readonly string[],
): Promise<IntrospectionStatus> {
  const relations = await readRelations(database, among, MAX_RELATIONS);
  const pending = await pendingNames(database);
  const imported = schemas.all().filter(({ mapping }) => mapping);
  const known = new Set([
    ...pending.map(tableLabel),
    ...imported.map(({ collectionName }) => collectionName),
  ]);
  const foreign = relations.filter((table) => !known.has(tableLabel(table)));
  const columns = await readColumns(
    database,
    foreign.map(({ oid }) => oid),
  );
  const unservable = foreign.flatMap((table): UnservedTable[] => {
    const reason = table.may.select
      ? columnsReason(columns.get(table.oid) ?? [])
      : 'The database does not let the platform read it';
    return reason === undefined ? [] : [{ name: tableLabel(table), reason }];
  });
  return {
    foreignSchemas: foreign.map(tableLabel),
    pendingSchemas: pending.map(tableLabel),
    importedSchemas: imported.map(({ collectionName }) => collectionName).sort(),
    unservedSchemas: [...unservable, ...(await ignoredTables({ database, schemas }, among))],
  };
}

/** Columns that a reason names. */
const MAX_NAMED = 3;

/** Why nothing of a table can be served; nothing where something can. */
function columnsReason(columns: readonly CatalogueColumn[]): string | undefined {
  if (columns.length === 0) return 'It has no columns';
  const skipped: SkippedColumn[] = [];
  if (servedColumns({ columns }, skipped).length > 0) return undefined;
  const named = skipped
    .slice(0, MAX_NAMED)
    .map(({ column, type, reason }) => `"${column}" (${cutText(type, 64)}): ${reason}`);
  const others = skipped.length - named.length;
  return `None of its columns can be served. ${named.join('; ')}${others > 0 ? `; and ${others} more` : ''}`;
}

interface IgnoredTable {
  readonly schema: string;
  readonly name: string;
  readonly extension: string | null;
  readonly requested: boolean;
}

/** Tables that introspection passes by: of extensions, of schemas that it may not use, and of those that are not named. */
const ignoredQuery = (among: readonly string[]): Statement => sql`
  select * from (
    select n.nspname as schema, c.relname as name, n.nspname = any(${among}::text[]) as requested,
      has_schema_privilege(n.oid, 'usage') as usable,
      (select e.extname from pg_depend d join pg_extension e on e.oid = d.refobjid
        where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e' limit 1) as extension
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition and n.nspname !~ ${closedSchema.source}
  ) t where not requested or not usable or extension is not null
  order by not requested, schema, name limit ${MAX_RELATIONS}::integer`;

/** A schema that was named once stays served: its tables are not among them. */
async function ignoredTables(
  { database, schemas }: StatusDependencies,
  among: readonly string[],
): Promise<readonly UnservedTable[]> {
  const { rows } = await database.query<IgnoredTable>(ignoredQuery(among));
  const served = new Set(schemas.all().flatMap((one) => (one.mapping ? [one.collectionName] : [])));
  return rows
    .filter((table) => !served.has(tableLabel(table)))
    .map((table) => ({ name: tableLabel(table), reason: ignoredReason(table) }));
}

function ignoredReason({ schema, extension, requested }: IgnoredTable): string {
  if (extension !== null) return `It belongs to the extension "${extension}"`;
  return requested
    ? `The database does not let the platform use the schema "${schema}"`
    : `The schema "${schema}" is not named in introspection.schemas`;
}
