/** From pending schemas to declared ones: all of a request, or none. */

import type { PlatformOptions } from '../../../../data/schema/language/definition.ts';
import { shortName } from '../../../../data/schema/language/names.ts';
import { resolveOptions } from '../../../../data/schema/language/options.ts';
import { sameName } from '../../../../data/schema/mapping/table-mapping.ts';
import type { ImportedTable } from '../../../../data/schema/plan/schema-request.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import type { Database } from '../../../../kernel/database/database.ts';
import { invalid } from '../../../../kernel/errors.ts';
import { databaseErrors } from '../../errors.ts';
import { type Edits, edited, mergedEdits } from './edits.ts';
import { finalName, isImported, sourceNames } from './names.ts';
import { importedOptions, withModels } from './pending-schema-view.ts';
import {
  allPending,
  findPending,
  type PendingName,
  type PendingRow,
  pendingNames,
  removePending,
} from './pending-store.ts';

/** A pending schema as it comes back, edited or not: what it does not say stays as it is. */
export interface FinalizeInput extends Edits {
  readonly _id?: string;
}

export interface FinalizeRequest {
  readonly inputs: readonly FinalizeInput[];
  /** All others that are pending too, as they are. */
  readonly all?: boolean;
  /** For every schema that is new, over what is said of it alone. */
  readonly options?: PlatformOptions;
}

export interface FinalizeDependencies {
  readonly database: Database;
  readonly schemas: SchemaRegistry;
}

export async function finalize(
  dependencies: FinalizeDependencies,
  caller: Caller,
  { inputs, all = false, options }: FinalizeRequest,
): Promise<number> {
  const { database, schemas } = dependencies;
  const chosen = await chosenRows(dependencies, inputs);
  const others = all ? await allPending(database, new Set(chosen.map(({ id }) => id))) : [];
  const rows = [...chosen, ...others];
  if (rows.length === 0) return 0;
  const everyName = await pendingNames(database);
  const names = sourceNames(schemas, [
    ...everyName.filter(({ id }) => rows.every((row) => row.id !== id)),
    ...rows.map(nameOf),
  ]);
  const tables = rows.map((row) => importedTable(dependencies, row, { names, options }));
  requireSteadyNames(dependencies, tables);
  await schemas.apply(caller, { kind: 'adopt', tables });
  await removePending(
    database,
    rows.map(({ id }) => id),
  );
  return rows.length;
}

const nameOf = ({ id, name, inferred, edits }: PendingRow): PendingName => ({
  id,
  ...inferred.mapping.source,
  pending: name,
  renamed: edits.name !== undefined,
});

/** The pending schemas that are meant, with the edits that came along. Throws 400 and 404. */
async function chosenRows(
  { database }: FinalizeDependencies,
  inputs: readonly FinalizeInput[],
): Promise<readonly PendingRow[]> {
  const found = await findPending(
    database,
    inputs.map(({ _id, name }) => _id ?? name ?? ''),
  );
  const seen = new Set<string>();
  return inputs.map(({ _id, ...edits }, i) => {
    const row =
      _id === undefined
        ? found.find(({ name }) => name === edits.name)
        : found.find(({ id }) => id === _id);
    const path = `schemas.${i}`;
    if (!row) {
      const message = `schemas.${i}: there is no such pending schema`;
      throw databaseErrors.PENDING_SCHEMA_NOT_FOUND({
        message,
        errors: [{ path, rule: 'exists', message: 'is not pending' }],
      });
    }
    if (seen.has(row.id)) throw invalid(path, 'unique', `"${shortName(row.name)}" is there twice`);
    seen.add(row.id);
    return withEdits(row, edits);
  });
}

function withEdits(row: PendingRow, { name, ...edits }: Edits): PendingRow {
  // The name that it has anyway is no choice of a name.
  const chosen = name !== undefined && name !== row.name ? { name } : {};
  const next = mergedEdits(row.inferred, row.edits, { ...edits, ...chosen });
  return { ...row, name: next.name ?? row.inferred.name, edits: next };
}

function importedTable(
  { schemas }: FinalizeDependencies,
  row: PendingRow,
  {
    names,
    options: common,
  }: {
    readonly names: ReturnType<typeof sourceNames>;
    readonly options: PlatformOptions | undefined;
  },
): ImportedTable {
  const { edits, inferred } = row;
  const { fields, columns, mapping, layout } = withModels(edited(inferred, edits), names);
  const existing = schemas.all().find((schema) => isImported(schema, mapping.source));
  const own = resolveOptions(
    edits.options ?? {},
    existing?.modelOptions.conduit ?? importedOptions,
    false,
  );
  // What was finalised before keeps the options that it has.
  const options = common && !existing ? resolveOptions(common, own, false) : own;
  return {
    name: existing?.name ?? finalName(row.name, edits.name !== undefined),
    fields,
    columns,
    mapping,
    ...layout,
    options,
  };
}

/** Schemas that were finalised before refer to others by the names that these were going to have. Throws 409. */
function requireSteadyNames(
  { schemas }: FinalizeDependencies,
  tables: readonly ImportedTable[],
): void {
  for (const { name, mapping } of tables) {
    for (const other of schemas.all()) {
      const fields = Object.entries(other.mapping?.columns ?? {});
      const wrong = fields.find(([field, { references }]) => {
        const model = other.relations.get(field)?.model;
        return (
          references &&
          sameName(references, mapping.source) &&
          model !== undefined &&
          model !== name
        );
      });
      if (!wrong) continue;
      const model = other.relations.get(wrong[0])?.model;
      throw databaseErrors.NAME_EXISTS({
        message: `${other.name} refers to this table as ${model}: finalise it under that name`,
      });
    }
  }
}
