/** What is public of records, by their ids (data/schema/public-view.ts). */
import type { Caller } from '../../../kernel/caller.ts';
import type { Database, Queryable } from '../../../kernel/database/database.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import { isId } from '../../../kernel/ids.ts';
import type { PermissionPort } from '../../../kernel/permissions.ts';
import { cutText } from '../../../kernel/text.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { publicSchema } from '../../schema/public-view.ts';
import type { SchemaRegistry } from '../../schema/registry/registry.ts';
import { viewerOf, visibleSchema } from '../access/field-access.ts';
import { createParameters } from '../sql/prepared-statements.ts';
import { noPopulate } from './projection.ts';
import { createRenderContext, selectList } from './render.ts';

interface PublicReads {
  readonly database: Database;
  readonly schemas: SchemaRegistry;
  readonly permissions: PermissionPort;
}

export interface PublicRecord {
  readonly id: string;
  readonly json: string;
}

/** In the order of the ids; those that are not there, and all where nothing is public, are left out. */
export async function publicRecords(
  dependencies: PublicReads,
  caller: Caller,
  schemaName: string,
  ids: readonly string[],
): Promise<readonly PublicRecord[]> {
  const { database, schemas } = dependencies;
  const schema = schemas.get(schemaName);
  const view = schemas.publicViews.get(schemaName);
  const known = ids.filter(isId);
  if (!schema || !view || known.length === 0) return [];
  const viewer = await viewerOf(dependencies, caller, schemaName);
  const seen = publicSchema(viewer ? visibleSchema(schema, viewer) : schema, view);
  const parameters = createParameters([known]);
  const columns = selectList(seen, 'r', noPopulate, createRenderContext(parameters));
  const text = `select x."_id" as id, row_to_json(x.*)::text as json from (select ${columns} from ${seen.rows} r
    where r."_id" = any($1::uuid[]) order by array_position($1::uuid[], r."_id")) x`;
  return (await database.query<PublicRecord>({ text, values: parameters.values })).rows;
}

/* What people call records: for answers that are read by people. */

/** Fields that are names where they are text, the first that has a value. */
const nameFields = ['displayName', 'name', 'title', 'label', 'username', 'email'];
/** Characters of a name that are shown. */
const MAX_SHOWN = 80;

/** Names by id; records without one are left out. `first`: fields that come before the usual ones. */
export async function recordLabels(
  database: Queryable,
  schema: CompiledSchema,
  ids: readonly string[],
  first: Iterable<string> = [],
): Promise<ReadonlyMap<string, string>> {
  const known = ids.filter(isId);
  const fields = [...new Set([...first, ...nameFields])].filter((name) => {
    const field = schema.tree.fields.get(name);
    return field?.kind === 'string' && !field.hidden;
  });
  if (known.length === 0 || fields.length === 0 || schema.mapping) return new Map();
  const names = fields.map((name) => `nullif(r.${identifier(name)}, '')`).join(', ');
  const text = `select x.id, x.label from (select r."_id"::text as id, coalesce(${names}) as label from ${schema.rows} r
    where r."_id" = any($1::uuid[])) x where x.label is not null`;
  const { rows } = await database.query<{ id: string; label: string }>({ text, values: [known] });
  return new Map(rows.map(({ id, label }) => [id, cutText(label, MAX_SHOWN)]));
}
