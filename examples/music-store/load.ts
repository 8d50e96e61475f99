/** Puts the schemas (admin surface) and the rows (public API) into the platform. */
import type { Api } from './api.ts';
import type { Dataset, Reference, Row } from './generate.ts';
import { schemas, type TableName, tableNames } from './schemas.ts';

/** The platform takes at most this many records per call. */
const BATCH_SIZE = 1000;

interface StoredSchema {
  readonly _id: string;
  readonly name: string;
}

/** Those of our schemas that the platform has. */
export async function existingSchemas(admin: Api): Promise<readonly StoredSchema[]> {
  const { schemas: stored } = await admin.get<{ schemas: StoredSchema[] }>('/database/schemas', {
    limit: 1000,
  });
  const ours: ReadonlySet<string> = new Set(tableNames);
  return stored.filter(({ name }) => ours.has(name));
}

/** Removes schemas together with their rows, those that point to others first. */
export async function removeSchemas(admin: Api, stored: readonly StoredSchema[]): Promise<void> {
  if (stored.length === 0) return;
  const order: readonly string[] = tableNames.toReversed();
  const ids = stored
    .toSorted((a, b) => order.indexOf(a.name) - order.indexOf(b.name))
    .map(({ _id }) => _id);
  await admin.delete('/database/schemas', { ids, deleteData: true });
}

export async function createSchemas(admin: Api): Promise<void> {
  for (const schema of schemas) await admin.post('/database/schemas', schema);
}

const isReference = (value: unknown): value is Reference =>
  typeof value === 'object' && value !== null && 'table' in value && 'row' in value;

/** Loads one table after the other and says how far it is. References become the ids that the platform gave. */
export async function loadRows(
  api: Api,
  dataset: Dataset,
  onTable: (table: TableName, rows: number) => void,
): Promise<void> {
  const ids = new Map<TableName, string[]>(tableNames.map((table) => [table, []]));

  const idOf = ({ table, row }: Reference): string | undefined => ids.get(table)?.[row];
  const isReady = (row: Row): boolean =>
    Object.values(row).every((value) => !isReference(value) || idOf(value) !== undefined);
  const resolve = (row: Row): Row =>
    Object.fromEntries(
      Object.entries(row).map(([field, value]) => [
        field,
        isReference(value) ? idOf(value) : value,
      ]),
    );

  for (const table of tableNames) {
    const rows = dataset[table];
    const known = ids.get(table) ?? [];
    while (known.length < rows.length) {
      const batch = nextBatch(rows.slice(known.length, known.length + BATCH_SIZE), isReady);
      if (batch.length === 0)
        throw new Error(`${table}: row ${known.length} points to a row that comes later`);
      const { docs } = await api.post<{ docs: { _id: string }[] }>(`/database/${table}/many`, {
        docs: batch.map(resolve),
      });
      for (const { _id } of docs) known.push(_id);
    }
    onTable(table, rows.length);
  }
}

/** The rows up to the first that has to wait for another of the same batch (an employee for the manager). */
function nextBatch(rows: readonly Row[], isReady: (row: Row) => boolean): readonly Row[] {
  const end = rows.findIndex((row) => !isReady(row));
  return end === -1 ? rows : rows.slice(0, end);
}

/** Which tables do not hold what the data set holds. */
export async function differences(api: Api, dataset: Dataset): Promise<readonly string[]> {
  const found = await Promise.all(
    tableNames.map(async (table) => {
      const { count } = await api.get<{ count: number }>(`/database/${table}`, { limit: 1 });
      return { table, count, expected: dataset[table].length };
    }),
  );
  return found
    .filter(({ count, expected }) => count !== expected)
    .map(({ table, count, expected }) => `${table} ${count} of ${expected}`);
}
