/**
 * Introspection (spec/database.md 5.12): tables that are there already become pending schemas, which
 * an admin looks through and finalises. Nothing here changes a table, or reads a row of one.
 */

import { schemaNameFault, shown } from '../../../../data/schema/language/names.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import type { ConfigHandle } from '../../../../kernel/config/definition.ts';
import { invalid } from '../../../../kernel/errors.ts';
import type { DatabaseConfig } from '../../config.ts';
import { databaseErrors } from '../../errors.ts';
import { MAX_RELATIONS, readCatalogue } from './catalogue.ts';
import { relationsQuery } from './catalogue-queries.ts';
import { type Edits, edited, mergedEdits } from './edits.ts';
import { type FinalizeDependencies, type FinalizeInput, finalize } from './finalize.ts';
import { findTables } from './found.ts';
import { sourceNames, tableLabel } from './known.ts';
import { findPending, listPending, type PendingQuery, type PendingRow, pendingNames, replacePending, saveEdits } from './pending-store.ts';
import { type PendingSchema, pendingSchema } from './shown.ts';

export interface Introspection {
  status(): Promise<IntrospectionStatus>;
  /** Reads the catalogue and renews what is pending; edits stay. Throws 409 while another one runs. */
  run(): Promise<void>;
  list(query: PendingQuery): Promise<{ readonly schemas: readonly PendingSchema[]; readonly count: number }>;
  /** Throws 404. */
  get(id: string): Promise<PendingSchema>;
  /** Keeps edits of a pending schema. Throws 400 and 404. */
  edit(id: string, edits: Edits): Promise<PendingSchema>;
  /** Declares schemas over their tables, all or none; answers how many. Throws 400, 404 and 409. */
  finalize(caller: Caller, inputs: readonly FinalizeInput[]): Promise<number>;
}

export interface IntrospectionStatus {
  readonly foreignSchemas: readonly string[];
  readonly pendingSchemas: readonly string[];
  readonly importedSchemas: readonly string[];
}

export interface IntrospectionDependencies extends FinalizeDependencies {
  readonly config: ConfigHandle<DatabaseConfig>;
}

export function createIntrospection(dependencies: IntrospectionDependencies): Introspection {
  const { database, schemas, config } = dependencies;

  const wantedSchemas = (): readonly string[] => config.current().introspection.schemas;

  async function renew(): Promise<void> {
    const relations = (await readCatalogue(database, wantedSchemas())).filter(({ may }) => may.select);
    if (relations.length > MAX_RELATIONS) throw databaseErrors.TOO_MANY_TABLES();
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
    async status() {
      const { rows } = await database.query<{ schema: string; name: string }>(relationsQuery(wantedSchemas(), MAX_RELATIONS));
      const pending = await pendingNames(database);
      const imported = schemas.all().filter(({ mapping }) => mapping);
      const known = new Set([...pending.map(tableLabel), ...imported.map(({ collectionName }) => collectionName)]);
      return {
        foreignSchemas: rows.map(tableLabel).filter((name) => !known.has(name)),
        pendingSchemas: pending.map(tableLabel),
        importedSchemas: imported.map(({ collectionName }) => collectionName).sort(),
      };
    },
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
    finalize: (caller, inputs) => finalize(dependencies, caller, inputs),
  };
}

/** Throws 400 for a name that cannot be, or that another pending schema has. */
function requireName(name: string, others: Awaited<ReturnType<typeof pendingNames>>, id: string): void {
  const fault = schemaNameFault(name);
  if (fault) throw invalid('name', 'name', `"${shown(name)}": ${fault}`);
  const taken = others.some((other) => other.id !== id && other.pending.toLowerCase() === name.toLowerCase());
  if (taken) throw invalid('name', 'unique', `another pending schema is called "${shown(name)}"`);
}
