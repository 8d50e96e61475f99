/**
 * Introspection (spec/database.md 5.12): tables that are there already become pending schemas, which
 * an admin looks through and finalises. Nothing here changes a table, or reads a row of one.
 */

import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { FieldMap } from '../../../../data/schema/language/definition.ts';
import { schemaNameProblem, shortName } from '../../../../data/schema/language/names.ts';
import type { TableMapping } from '../../../../data/schema/mapping/table-mapping.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import type { ConfigHandle } from '../../../../kernel/config/config-definition.ts';
import { invalid } from '../../../../kernel/errors.ts';
import type { DatabaseConfig } from '../../config.ts';
import { databaseErrors } from '../../errors.ts';
import { type CatalogueRelation, MAX_RELATIONS, readCatalogue } from './catalogue.ts';
import { type Edits, edited, mergedEdits } from './edits.ts';
import { type FinalizeDependencies, type FinalizeRequest, finalize } from './finalize.ts';
import { inferTable } from './infer.ts';
import type { InferredTable } from './inferred.ts';
import { isImported, schemaNames, sourceNames } from './names.ts';
import { type PendingSchema, pendingSchema } from './pending-schema-view.ts';
import {
  type FoundTable,
  findPending,
  listPending,
  type PendingQuery,
  type PendingRow,
  pendingNames,
  replacePending,
  saveEdits,
} from './pending-store.ts';
import { type IntrospectionStatus, statusOf } from './status.ts';

/* What the tables of the catalogue would become, and which of them have changed since they got a schema. */

/** Tables that have a schema are among them only when they have changed. Those of which nothing can be served are not. */
function findTables(
  schemas: SchemaRegistry,
  relations: readonly CatalogueRelation[],
): readonly FoundTable[] {
  const imported = schemas.all().filter(({ mapping }) => mapping);
  const fresh = relations.filter(
    (relation) => !imported.some((schema) => isImported(schema, relation)),
  );
  const taken = new Set(schemas.all().map(({ name }) => name.toLowerCase()));
  const names = schemaNames(fresh, taken, relations);
  const known = sourceNames(
    schemas,
    fresh.map(({ schema, name }, i) => ({
      id: '',
      schema,
      name,
      pending: names[i] ?? name,
      renamed: false,
    })),
  );
  const context = {
    relation: (name: { schema: string; name: string }) =>
      relations.find((one) => one.schema === name.schema && one.name === name.name),
    schemaName: known,
  };
  return relations.flatMap((relation): FoundTable[] => {
    const schema = imported.find((one) => isImported(one, relation));
    const name = schema?.name ?? names[fresh.indexOf(relation)] ?? relation.name;
    const inferred = inferTable(relation, name, context);
    if (Object.keys(inferred.mapping.columns).length === 0) return [];
    if (!schema?.mapping) return [{ inferred, edits: {} }];
    return hasChanged(schema.mapping, inferred.mapping)
      ? [{ inferred, edits: editsOf(schema, schema.mapping, inferred) }]
      : [];
  });
}

/** Whether a table is no longer what its schema was laid over. A key that somebody named is none of the table's. */
function hasChanged(stored: TableMapping, found: TableMapping): boolean {
  const essence = ({ columns, key, kind }: TableMapping): string => {
    const shapes = Object.values(columns).map(({ column, type, form, filled }) =>
      JSON.stringify([column, type.schema, type.name, form, filled]),
    );
    return JSON.stringify([
      kind,
      shapes.sort(),
      found.key.length > 0 && key.map((field) => columns[field]?.column),
    ]);
  };
  return essence(stored) !== essence(found);
}

/** What was made of the table when it was finalised, and since, so that it is not lost by what has changed. */
function editsOf(schema: CompiledSchema, stored: TableMapping, { mapping }: InferredTable): Edits {
  const fieldOf = new Map(
    Object.entries(stored.columns).map(([field, { column }]) => [column, field]),
  );
  const renames = Object.entries(mapping.columns).flatMap(
    ([field, { column }]): [string, string][] => {
      const name = fieldOf.get(column);
      return name === undefined || name === field ? [] : [[field, name]];
    },
  );
  const { _id, createdAt, updatedAt, ...fields } = schema.fields as FieldMap;
  return {
    fields,
    known: Object.keys(stored.columns),
    ...(renames.length > 0 && { renames: Object.fromEntries(renames) }),
    ...(mapping.key.length === 0 && stored.key.length > 0 && { key: stored.key }),
  };
}

export interface Introspection {
  status(): Promise<IntrospectionStatus>;
  /** Reads the catalogue and renews what is pending; edits stay. Throws 409 while another one runs. */
  run(): Promise<void>;
  list(
    query: PendingQuery,
  ): Promise<{ readonly schemas: readonly PendingSchema[]; readonly count: number }>;
  /** Throws 404. */
  get(id: string): Promise<PendingSchema>;
  /** Keeps edits of a pending schema. Throws 400 and 404. */
  edit(id: string, edits: Edits): Promise<PendingSchema>;
  /** Declares schemas over their tables, all or none; answers how many. Throws 400, 404 and 409. */
  finalize(caller: Caller, request: FinalizeRequest): Promise<number>;
}

interface IntrospectionDependencies extends FinalizeDependencies {
  readonly config: ConfigHandle<DatabaseConfig>;
}

export function createIntrospection(dependencies: IntrospectionDependencies): Introspection {
  const { database, schemas, config } = dependencies;

  const requestedSchemas = (): readonly string[] => config.current().introspection.schemas;

  async function renew(): Promise<void> {
    const relations = (await readCatalogue(database, requestedSchemas())).filter(
      ({ may }) => may.select,
    );
    if (relations.length > MAX_RELATIONS) throw databaseErrors.TABLE_LIMIT_EXCEEDED();
    const found = findTables(schemas, relations);
    await database.transaction(async (transaction) => replacePending(transaction, found));
  }

  async function required(id: string): Promise<PendingRow> {
    const row = (await findPending(database, [id])).find((one) => one.id === id);
    if (!row) throw databaseErrors.PENDING_SCHEMA_NOT_FOUND();
    return row;
  }

  async function get(id: string): Promise<PendingSchema> {
    const [schema] = await show([await required(id)]);
    if (!schema) throw databaseErrors.PENDING_SCHEMA_NOT_FOUND();
    return schema;
  }

  const show = async (rows: readonly PendingRow[]): Promise<readonly PendingSchema[]> => {
    const names = sourceNames(schemas, await pendingNames(database));
    return rows.map((row) => pendingSchema(row, { names, schemas }));
  };

  return {
    status: () => statusOf(dependencies, requestedSchemas()),
    async run() {
      const done = await database.tryLock('database.introspection', async () => {
        await renew();
        return true;
      });
      if (!done) throw databaseErrors.INTROSPECTION_RUNNING();
    },
    async list(query) {
      const { rows, count } = await listPending(database, query);
      return { schemas: await show(rows), count };
    },
    get,
    async edit(id, change) {
      const row = await required(id);
      const edits = mergedEdits(row.inferred, row.edits, change);
      const name = edits.name ?? row.inferred.name;
      requireName(name, await pendingNames(database), id);
      edited(row.inferred, edits);
      await saveEdits(database, id, edits, name);
      return get(id);
    },
    finalize: (caller, request) => finalize(dependencies, caller, request),
  };
}

/** Throws 400 for a name that cannot be, or that another pending schema has. */
function requireName(
  name: string,
  others: Awaited<ReturnType<typeof pendingNames>>,
  id: string,
): void {
  const problem = schemaNameProblem(name);
  if (problem) throw invalid('name', 'name', `"${shortName(name)}": ${problem}`);
  const taken = others.some(
    (other) => other.id !== id && other.pending.toLowerCase() === name.toLowerCase(),
  );
  if (taken)
    throw invalid('name', 'unique', `another pending schema is called "${shortName(name)}"`);
}
